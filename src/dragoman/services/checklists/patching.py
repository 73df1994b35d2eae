"""A patch on a checklist: all of its changes, or a complaint about each that cannot be made."""

import copy
import hashlib
from typing import Any, cast

import rfc8785
from pydantic import ValidationError
from pydantic_core import to_json

from dragoman.errors import FieldError
from dragoman.services.checklists.models import ChecklistContent, ChecklistPatch, PatchOp, PatchOperation

Json = dict[str, Any]


class Misplaced(Exception):
    """A change that cannot be made where it is to be made."""


def digest_of_patch(patch: ChecklistPatch) -> bytes:
    """What a validation is bound to: this patch, whatever order it was written in."""
    return hashlib.sha256(rfc8785.dumps(patch.model_dump(mode="json"))).digest()


def apply_patch(content: Json, patch: ChecklistPatch) -> tuple[ChecklistContent | None, list[FieldError]]:
    """The content after the patch, or all that is wrong with it; what was given stays as it is."""
    changed, wrong = copy.deepcopy(content), list[FieldError]()
    for place, operation in enumerate(patch.operations):
        try:
            _apply(changed, operation)
        except Misplaced as error:
            wrong.append(FieldError(field=f"operations.{place}.path", message=str(error)))
    if wrong:
        return None, wrong
    try:
        return ChecklistContent.model_validate_json(to_json(changed), strict=True), []
    except ValidationError as error:
        return None, [
            FieldError(
                field="/" + "/".join(str(part) for part in item["loc"]),
                message=item["msg"].removeprefix("Value error, "),
            )
            for item in error.errors(include_url=False, include_context=False, include_input=False)
        ]


def _apply(content: Json, operation: PatchOperation) -> None:
    *way, last = (part.replace("~1", "/").replace("~0", "~") for part in operation.path.split("/")[1:])
    holder: Any = content
    for part in way:
        holder = _step(holder, part)
    if isinstance(holder, dict):
        _change_member(cast("Json", holder), last, operation)
    elif isinstance(holder, list):
        _change_item(cast("list[Any]", holder), last, operation)
    else:
        raise Misplaced("leads into a value that has no parts")


def _step(holder: Any, part: str) -> Any:
    if isinstance(holder, dict) and part in holder:
        return cast("Json", holder)[part]
    if isinstance(holder, list):
        items = cast("list[Any]", holder)
        return items[_index(part, len(items) - 1)]
    raise Misplaced(f"there is no {part!r}")


def _change_member(holder: Json, name: str, operation: PatchOperation) -> None:
    if operation.op is not PatchOp.ADD and holder.get(name) is None:
        raise Misplaced(f"there is no {name!r} to {operation.op.value}")
    if operation.op is PatchOp.REMOVE:
        del holder[name]
    else:
        holder[name] = operation.value


def _change_item(holder: list[Any], part: str, operation: PatchOperation) -> None:
    if operation.op is PatchOp.ADD:
        holder.insert(len(holder) if part == "-" else _index(part, len(holder)), operation.value)
        return
    index = _index(part, len(holder) - 1)
    if operation.op is PatchOp.REMOVE:
        del holder[index]
    else:
        holder[index] = operation.value


def _index(part: str, most: int) -> int:
    if not (part.isascii() and part.isdigit() and len(part) < 7) or int(part) > most:
        raise Misplaced(f"there is no item {part!r}")
    return int(part)
