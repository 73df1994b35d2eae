"""A tool call: read the arguments, ask the gate, show the result."""

import asyncio
from contextlib import nullcontext
from typing import Any, Final

from dragoman.context import Caller, Progress, current_request, progress_to
from dragoman.doors.mcp.catalogue import KEY_ARGUMENT, OperationTool
from dragoman.doors.mcp.offer import Offer
from dragoman.doors.mcp.wire import Json, failed, succeeded
from dragoman.errors import DragomanError, InvalidInput, TimedOut
from dragoman.infra.limits import Admitted

KEY_META: Final = "dragoman/idempotencyKey"
REPLAYED_META: Final = "dragoman/replayed"


async def call_operation(
    offer: Offer,
    caller: Caller,
    tool: OperationTool,
    given: Json,
    *,
    meta: Json,
    admitted: Admitted | None,
    progress: Progress | None = None,
) -> Json:
    """Run an operation, and tell `progress` how far it is; whatever goes wrong with it is a result that says so."""
    # The edge times a request until its response begins, and here that may be long before there is a result.
    timeout_s = None if tool.operation.long else offer.timeout_s
    try:
        arguments = dict(given)
        key = read_key(tool, arguments, meta)
        with progress_to(progress) if progress is not None else nullcontext():
            async with asyncio.timeout(timeout_s):
                output = await offer.gate.run(tool.operation, caller, arguments, admitted=admitted, idempotency_key=key)
    except DragomanError as error:
        return failed(error)
    except TimeoutError:
        return failed(TimedOut(after_s=offer.timeout_s))
    return succeeded(
        output.model_dump_json(),
        output.model_dump(mode="json"),
        meta={REPLAYED_META: True} if key is not None and _was_replayed() else None,
    )


def read_key(tool: OperationTool, arguments: Json, meta: Json) -> str | None:
    """The idempotency key, from the argument that models see, which is taken out, or the meta that programs set.

    Raises:
        InvalidInput: it is no text, or the two are not the same.
    """
    named: Json = {}
    field = tool.operation.input.stands_alone
    # A value that stands alone has fields of its own: a key among them belongs to it and not to the call.
    if tool.takes_key and KEY_ARGUMENT in arguments and not (field and field not in arguments):
        named[KEY_ARGUMENT] = arguments.pop(KEY_ARGUMENT)
    return one_key(named, meta) if tool.operation.writes else None


def one_key(named: Json, meta: Json) -> str | None:
    """Return the idempotency key of a call, as an argument in `named` or in the meta; None when neither has one.

    Raises:
        InvalidInput: it is not text, or the two differ.
    """
    keys: list[Any] = [meta[KEY_META]] if KEY_META in meta else []
    keys += [named[KEY_ARGUMENT]] if KEY_ARGUMENT in named else []
    if not keys:
        return None
    key = keys[0]
    if not isinstance(key, str):
        raise InvalidInput.of(KEY_ARGUMENT, "must be text")
    if keys[-1] != key:
        raise InvalidInput.of(KEY_ARGUMENT, f"is not the one in _meta, {KEY_META}")
    return key


def _was_replayed() -> bool:
    request = current_request()
    return request is not None and (b"idempotency-replayed", b"true") in request.response_headers
