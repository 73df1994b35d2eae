"""Commands made from operations: `user.invite` is `dragoman user invite`, its input fields are the options."""

import json
import shlex
from collections.abc import Iterable
from enum import Enum, EnumType
from types import UnionType
from typing import Annotated, Any, TypeAlias, Union, cast, get_args, get_origin

import rich_click as click
from pydantic.fields import FieldInfo

from dragoman.addresses import bindings
from dragoman.doors.cli.following import follow
from dragoman.doors.cli.hints import next_steps
from dragoman.doors.cli.program import program
from dragoman.doors.cli.session import Asked, common_options, connect, key_option
from dragoman.doors.cli.views import View
from dragoman.operations import Binding, Recorded

AnyType: TypeAlias = click.ParamType[Any, Any]
# What people type, where it differs from what programs call it.
_SHORTER = {"get": "show"}


def project_noun(noun: str, help_text: str) -> click.RichGroup:
    """The group of a noun, with a command for each of its operations."""
    group = click.RichGroup(name=noun.replace("_", "-"), help=help_text, no_args_is_help=True)
    for binding in bindings():
        if binding.operation.noun == noun:
            group.add_command(project_operation(binding))
    return group


def project_operation(binding: Binding, name: str | None = None) -> click.RichCommand:
    """The command of an operation."""
    operation = binding.operation
    verb = operation.name.partition(".")[2]
    name = name or _SHORTER.get(verb, verb.replace("_", "-"))

    def callback(
        as_json: bool,  # noqa: FBT001 - click calls it by name
        as_tenant: str | None,
        idempotency_key: str | None = None,
        **given: Any,
    ) -> None:
        values = {key: value for key, value in given.items() if value is not None and value != ()}
        _run(binding, values, Asked(as_json, as_tenant, idempotency_key))

    params: list[click.Parameter] = [
        _parameter(field_name, field, is_argument=field_name in binding.parameters)
        for field_name, field in operation.input.model_fields.items()
    ]
    # What is recorded in batches has a key of its own, in its input.
    if operation.writes and operation.recorded is not Recorded.BATCH:
        params.append(key_option())
    text = operation.summary + "." + (f"\n\n{operation.description}" if operation.description else "")
    return click.RichCommand(
        name=name,
        params=[*params, *common_options()],
        callback=callback,
        help=text,
        epilog=f"Example: {_example(name, binding)}",
        short_help=operation.summary + ".",
    )


def _run(binding: Binding, given: dict[str, Any], asked: Asked) -> None:
    view = View(as_json=asked.as_json)
    client = connect(asked)
    if binding.operation.long:
        envelope = {"data": follow(binding, given, asked, view.note), "meta": {}}
    else:
        envelope = client.call(binding, given, idempotency_key=asked.idempotency_key)
    data, cursor = envelope["data"], envelope["meta"].get("nextCursor")
    if isinstance(data, list):
        items = cast("list[dict[str, Any]]", data)
        if asked.as_json:
            view.json({"items": items, "next_cursor": cursor})
        else:
            view.rows(binding.operation.noun, items, more=f"--cursor {cursor}" if cursor else None)
    elif asked.as_json:
        view.json(data)
    else:
        view.thing(data)
        for step in next_steps(binding.operation.name, given, data, client.url):
            view.err.print(step)


def _parameter(name: str, field: FieldInfo, *, is_argument: bool) -> click.Parameter:
    kind, repeated = _click_type(field.annotation)
    text = (field.description or "") + _default(field)
    if is_argument:
        return click.RichArgument([name], required=True, type=kind, help=text)
    flag = "--" + name.replace("_", "-")
    if kind is click.BOOL:
        return click.RichOption([f"{flag}/--no-{name.replace('_', '-')}"], default=None, help=text)
    if field.is_required():
        # No default, not even None: click would take it for a value that was given.
        return click.RichOption([flag, name], type=kind, required=True, multiple=repeated, help=text)
    text += " May be repeated." if repeated else ""
    return click.RichOption([flag, name], type=kind, multiple=repeated, default=None, help=text)


def _default(field: FieldInfo) -> str:
    value = field.get_default()
    if isinstance(value, Enum):
        value = value.value
    return f" [{value}]" if isinstance(value, str | int) and not isinstance(value, bool) and value != "" else ""


def _click_type(annotation: Any) -> tuple[AnyType, bool]:
    """The type of an option, and whether it may be given several times."""
    origin: Any = get_origin(annotation)
    inner = get_args(annotation)
    if origin is Annotated:
        return _click_type(inner[0])
    if origin in (Union, UnionType):
        return _click_type(next(part for part in inner if part is not type(None)))
    if origin is list:
        return _click_type(inner[0])[0], True
    if isinstance(annotation, EnumType):
        members = cast("Iterable[Enum]", annotation)
        return click.Choice([str(member.value) for member in members]), False
    if origin is dict or hasattr(annotation, "model_fields"):
        return JsonText(), False
    plain: dict[Any, AnyType] = {bool: click.BOOL, int: click.INT, float: click.FLOAT}
    return plain.get(annotation, click.STRING), False


class JsonText(click.ParamType[Any, Any]):
    """An object, typed as JSON."""

    name = "JSON"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read it."""
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError as error:
            self.fail(f"is not JSON: {error}", param, ctx)


def _example(name: str, binding: Binding) -> str:
    words = [program(), binding.operation.noun.replace("_", "-"), name]
    for field, value in binding.operation.example.items():
        for one in cast("list[object]", value) if isinstance(value, list) else [value]:
            flag = field.replace("_", "-")
            shown = json.dumps(one) if isinstance(one, dict | list) else str(one)
            if isinstance(one, bool):
                words.append(f"--{flag}" if one else f"--no-{flag}")
            else:
                words += [shown] if field in binding.parameters else [f"--{flag}", shown]
    return shlex.join(words)
