"""Commands made from operations: `user.invite` is `dragoman user invite`, its input fields are the options."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, EnumType
from types import UnionType
from typing import Annotated, Any, TypeAlias, Union, cast, get_args, get_origin

import rich_click as click
from pydantic.fields import FieldInfo

from dragoman.addresses import Binding

AnyType: TypeAlias = click.ParamType[Any, Any]
Run = Callable[[Binding, dict[str, Any], "Asked"], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """What every command understands."""

    as_json: bool
    tenant: str | None


def common_options() -> list[click.Parameter]:
    """`--json` and `--tenant`, on every command that talks to the server."""
    return [
        click.Option(["--json", "as_json"], is_flag=True, help="Print JSON for programs."),
        click.Option(["--tenant", "as_tenant"], default=None, help="Act in this tenant [demo]."),
    ]


_GROUPS = {
    "tenant": "Organisations whose data nobody else sees.",
    "user": "The people of a tenant.",
    "key": "API keys for programs.",
    "audit": "Who did what, provably.",
    "token": "Bearer tokens.",
    "identity": "Who the server takes you for.",
}


def project(root: click.RichGroup, bindings: Iterable[Binding], run: Run) -> None:
    """Add a command for every binding, grouped by noun."""
    for binding in bindings:
        noun, _, verb = binding.operation.name.partition(".")
        group = root.commands.get(noun)
        if not isinstance(group, click.RichGroup):
            group = click.RichGroup(name=noun, help=_GROUPS.get(noun, ""), no_args_is_help=True)
            root.add_command(group)
        group.add_command(_command(_SHORTER.get(verb, verb), binding, run))


# What people type, where it differs from what programs call it.
_SHORTER = {"get": "show"}


def _command(name: str, binding: Binding, run: Run) -> click.RichCommand:
    def callback(as_json: bool, as_tenant: str | None, **given: Any) -> None:  # noqa: FBT001 - click calls it by name
        values = {key: value for key, value in given.items() if value is not None and value != ()}
        run(binding, values, Asked(as_json, as_tenant))

    operation = binding.operation
    params: list[click.Parameter] = [
        _parameter(field_name, field, is_argument=field_name in binding.parameters)
        for field_name, field in operation.input.model_fields.items()
    ]
    text = operation.summary + "." + (f"\n\n{operation.description}" if operation.description else "")
    return click.RichCommand(
        name=name,
        params=[*params, *common_options()],
        callback=callback,
        help=text,
        epilog=_example(name, binding),
        short_help=operation.summary,
    )


def _parameter(name: str, field: FieldInfo, *, is_argument: bool) -> click.Parameter:
    kind, repeated = _click_type(field.annotation)
    if is_argument:
        return click.Argument([name], required=True, type=kind)
    flag = "--" + name.replace("_", "-")
    help_text = field.description or ""
    if kind is click.BOOL:
        return click.Option([f"{flag}/--no-{name.replace('_', '-')}"], default=None, help=help_text)
    return click.Option(
        [flag, name],
        type=kind,
        required=field.is_required(),
        multiple=repeated,
        default=None,
        help=help_text + _default(field),
    )


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
        return _Json(), False
    plain: dict[Any, AnyType] = {bool: click.BOOL, int: click.INT}
    return plain.get(annotation, click.STRING), False


class _Json(click.ParamType[Any, Any]):
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


def _example(name: str, binding: Binding) -> str | None:
    if not binding.operation.example:
        return None
    words = ["dragoman", binding.operation.skill, name]
    for field, value in binding.operation.example.items():
        shown = json.dumps(value) if isinstance(value, dict | list) else str(value)
        shown = f"'{shown}'" if " " in shown or "{" in shown else shown
        words += [shown] if field in binding.parameters else ["--" + field.replace("_", "-"), shown]
    return "Example: " + " ".join(words)
