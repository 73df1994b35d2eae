"""Operations as the tools of a task."""

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from dragoman.arguments import invalid
from dragoman.context import Caller
from dragoman.errors import NotFound
from dragoman.gate import Gate
from dragoman.operations import AnyOperation, Handlers


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

    def find(self, name: str) -> AnyOperation | None:
        """The operation of this name."""
        return self._operations.get(name)

    async def run(self, caller: Caller, name: str, arguments: Any, *, key: str | None) -> Any:
        """The tool's output as JSON."""
        operation = self._operations.get(name)
        if operation is None:
            raise NotFound("tool", name)
        try:
            given = operation.input.model_validate(arguments)
        except ValidationError as error:
            raise invalid(error) from None
        output = await self._gate.run(operation, caller, given, idempotency_key=key if operation.writes else None)
        return output.model_dump(mode="json")
