"""Arguments of a tool that could not be kept: their refusal is an answer of the tool, which a model can act on."""

from dataclasses import dataclass
from typing import Any, Final, cast

from dragoman.arguments import MOST_FIELDS
from dragoman.doors.mcp.wire import Json
from dragoman.errors import FieldError, InvalidInput
from dragoman.jsontext import UnfitJson, check_values

# Under this name the refusal goes with its request through the SDK, which tells whether there is such a tool.
UNFIT_KEY: Final = "dragoman.mcp.unfit"


@dataclass(frozen=True, slots=True)
class UnfitCall:
    """A tool call without those of its arguments that are refused, and their refusal."""

    message: Json
    refusal: InvalidInput


def find_unfit_call(error: UnfitJson) -> UnfitCall | None:
    """Return the call that the text is; None where it is something else, or unfit beside its arguments too."""
    message = _object(error.value)
    params = _object(message.get("params"))
    if message.get("method") != "tools/call" or not isinstance(params.get("arguments"), dict):
        return None
    complaints: list[FieldError] = []
    fit: Json = {}
    for name, value in _object(params["arguments"]).items():
        try:
            check_values({name: value})
            fit[name] = value
        except InvalidInput as unfit:
            complaints += [FieldError(**one) for one in unfit.details["errors"]]
    if not complaints:  # each could be kept, and all of them together could not
        complaints, fit = [FieldError(**one) for one in error.details["errors"]], {}
    rest = message | {"params": params | {"arguments": fit}}
    try:
        check_values(rest)
    except InvalidInput:
        return None
    return UnfitCall(rest, InvalidInput(complaints[:MOST_FIELDS]))


def _object(value: Any) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}
