"""Operations as the tools of a task."""

from collections.abc import Iterator
from typing import Any

from dragoman.arguments import withhold
from dragoman.context import Caller
from dragoman.errors import NotFound
from dragoman.gate import Gate
from dragoman.infra.limits import Admitted
from dragoman.operations import AnyOperation, Handlers, Output
from dragoman.services.tasks.turns.execution import ToolOutput


class GateTools:
    """Every operation as a tool: its name, its input, the same guards."""

    def __init__(self, gate: Gate, handlers: Handlers) -> None:
        self._gate = gate
        self._operations: dict[str, AnyOperation] = {operation.tool: operation for operation in handlers}

    def __iter__(self) -> Iterator[AnyOperation]:
        return iter(self._operations.values())

    def has(self, name: str) -> bool:
        """Whether there is such a tool."""
        return name in self._operations

    def is_whole(self, name: str) -> bool:
        """Whether there is such a tool, and it changes nothing, or all at once with its idempotency key."""
        operation = self._operations.get(name)
        return operation is not None and (not operation.writes or operation.atomic)

    def reads(self, name: str) -> bool:
        """Whether there is such a tool, and it changes nothing."""
        operation = self._operations.get(name)
        return operation is not None and not operation.writes

    def find(self, name: str) -> AnyOperation | None:
        """The operation of this name."""
        return self._operations.get(name)

    def keepable(self, name: str, arguments: Any) -> Any:
        """What may be kept of the arguments of a tool: all but the secrets."""
        return withhold(self._get(name).input, arguments)

    async def run(
        self, caller: Caller, name: str, arguments: Any, *, key: str | None, admitted: Admitted | None = None
    ) -> ToolOutput:
        """The tool's output; with `admitted` the call was counted where it came in."""
        operation = self._get(name)
        key = key if operation.writes else None
        return _made(await self._gate.run(operation, caller, arguments, admitted=admitted, idempotency_key=key))

    async def find_done(self, caller: Caller, name: str, arguments: Any, *, key: str) -> ToolOutput | None:
        """What the tool gave when it was run under this key, or None when it was not."""
        operation = self._get(name)
        found = await self._gate.find_done(operation, caller, arguments, idempotency_key=key)
        return _made(found) if found is not None else None

    def _get(self, name: str) -> AnyOperation:
        operation = self._operations.get(name)
        if operation is None:
            raise NotFound("tool", name)
        return operation


def _made(output: Output) -> ToolOutput:
    kept = output.without_secrets()
    shown = output.model_dump(mode="json")
    return ToolOutput(shown, shown if kept is output else kept.model_dump(mode="json"))
