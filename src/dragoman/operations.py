"""An operation is declared once; every door projects from it.

`memory.add` is one `Operation`. Its tool name on every wire is `memory_add`; REST, OpenAPI, MCP, A2A and the CLI
read its models, its permission and its annotations from here, so that parity holds by construction.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from dragoman.context import Caller


class Input(BaseModel):
    """What an operation takes: unknown fields are refused, values are frozen.

    The value of the field that `stands_alone` names may be sent by itself, without that name around it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    stands_alone: ClassVar[str] = ""


class Output(BaseModel):
    """What an operation gives."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    def without_secrets(self) -> "Output":
        """What may be kept of it: an output that shows a secret once overrides this."""
        return self


class HasId(Protocol):
    """An item of a list."""

    @property
    def id(self) -> UUID:
        """Sorts by the time it was made."""
        ...


T = TypeVar("T", bound=BaseModel)


class ListInput(Input):
    """A page of a list; `cursor` is what the page before gave."""

    limit: int = Field(50, ge=1, le=200, description="How many at most.")
    cursor: UUID | None = Field(None, description="Where the page before ended; the page says it.")


class Page(Output, Generic[T]):
    """Some items, newest first, and where to go on."""

    items: list[T]
    next_cursor: str | None = None


def page(found: list[T], limit: int) -> Page[T]:
    """A page of what was found when one more than the limit was asked for; the items have ids that sort by time."""
    items = found[:limit]
    last = cast("HasId", items[-1]) if len(found) > limit else None
    return Page(items=items, next_cursor=str(last.id) if last else None)


I = TypeVar("I", bound=Input)
O = TypeVar("O", bound=Output)


class Effect(StrEnum):
    """What running it does to the world; also the annotations of MCP and the method of REST."""

    READ = "read"
    WRITE = "write"
    DESTRUCTIVE = "destructive"


class RateClass(StrEnum):
    """Polling is metered apart from work, so that a caller is not starved by asking."""

    WORK = "work"
    POLL = "poll"


class Recorded(StrEnum):
    """Who writes the audit record of a write, and in which transaction.

    GATE: the gate, in the transaction of the operation. STEP: the handler, whose steps of tasks carry their records, in
    a transaction of the core that the gate opens. BATCH: the handler, which also has its own idempotency key and shares
    a transaction with what comes at the same moment.
    """

    GATE = "gate"
    STEP = "step"
    BATCH = "batch"


@dataclass(frozen=True, slots=True)
class Operation(Generic[I, O]):
    """One thing Dragoman can do: `noun.verb`, its models, and what it takes to be allowed.

    A `long` write holds no transaction while it runs: it opens its own, can be repeated from any point, and its key and
    its audit record are written when it is done. Operations of several nouns may be `part_of` one skill.
    """

    name: str
    summary: str
    input: type[I]
    output: type[O]
    permission: str
    effect: Effect = Effect.READ
    rate_class: RateClass = RateClass.WORK
    sensitive: bool = False
    long: bool = False
    recorded: Recorded = Recorded.GATE
    part_of: str = ""
    description: str = ""
    example: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def tool(self) -> str:
        """Its name as a tool."""
        return self.name.replace(".", "_")

    @property
    def noun(self) -> str:
        """What it is about."""
        return self.name.partition(".")[0]

    @property
    def skill(self) -> str:
        """The skill it belongs to: that of its noun, unless it says otherwise."""
        return self.part_of or self.noun

    @property
    def writes(self) -> bool:
        """Whether it changes anything."""
        return self.effect is not Effect.READ

    @property
    def atomic(self) -> bool:
        """Whether all that it changes is committed in one transaction of the gate, with its idempotency key."""
        return self.writes and not self.long and self.recorded is Recorded.GATE


@dataclass(frozen=True, slots=True)
class Passage:
    """Something that a protocol carries by itself, a message or a stream: the gate guards the way in, and no more."""

    name: str
    permission: str
    rate_class: RateClass = RateClass.WORK

    @property
    def skill(self) -> str:
        """The noun it belongs to."""
        return self.name.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Binding:
    """One method at one path; `{name}` in the path is the input field of that name."""

    method: str
    path: str
    operation: Operation[Any, Any]
    status: int = 200

    @property
    def parameters(self) -> tuple[str, ...]:
        """The input fields that the path carries."""
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{"))

    @property
    def tag(self) -> str:
        """The group it is listed under."""
        return self.path.split("/")[2]


Handler = Callable[[Caller, I], Awaitable[O]]
Prepare = Callable[[Caller, I], Awaitable[I]]
AnyOperation = Operation[Any, Any]


@dataclass(frozen=True, slots=True)
class Grouped(Generic[I, O]):
    """A write that shares its transaction with those of other requests of the same tenant.

    `plan` applies the rules to one input, for its caller, and does no I/O. `write` writes what several plans say and
    returns an output for each; the caller is the first one's, and only its tenant and platform hold for all of them.
    """

    plan: Callable[[Caller, I], Any]
    write: Callable[[Caller, Sequence[Any]], Awaitable[Sequence[O]]]


class Handlers:
    """Which code answers which operation; filled by the composition root, read by the gate and the doors."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler[Any, Any]] = {}
        self._prepares: dict[str, Prepare[Any]] = {}
        self._grouped: dict[str, Grouped[Any, Any]] = {}
        self._operations: dict[str, AnyOperation] = {}
        self._tools: dict[str, AnyOperation] = {}

    def add(
        self,
        operation: Operation[I, O],
        handler: Handler[I, O],
        *,
        prepare: Prepare[I] | None = None,
        grouped: Grouped[I, O] | None = None,
    ) -> None:
        """Bind an operation; a second binding of the same name is a mistake in the composition root.

        What a write has to look up slowly is for `prepare`: it makes another input of the given one, before the
        transaction begins. With `grouped`, several requests share a transaction; the handler does one in a transaction
        that is open already.
        """
        if operation.name in self._operations:
            raise ValueError(f"operation {operation.name} is bound twice")
        self._operations[operation.name] = operation
        self._tools[operation.tool] = operation
        self._handlers[operation.name] = handler
        if prepare is not None:
            self._prepares[operation.name] = prepare
        if grouped is not None:
            self._grouped[operation.name] = grouped

    def tell_of_writes(self, skills: Collection[str], listener: Callable[[Caller], Awaitable[None]]) -> None:
        """Call the listener whenever an operation of these nouns has changed something; it may still be rolled back."""
        for name, operation in self._operations.items():
            if operation.writes and operation.skill in skills:
                self._handlers[name] = _telling(self._handlers[name], listener)
                if (grouped := self._grouped.get(name)) is not None:
                    self._grouped[name] = replace(grouped, write=_telling(grouped.write, listener))

    def handler(self, operation: Operation[I, O]) -> Handler[I, O]:
        """The code behind an operation."""
        return self._handlers[operation.name]

    def find_tool(self, name: str) -> AnyOperation | None:
        """Return the operation that has this name as a tool."""
        return self._tools.get(name)

    def find_prepare(self, operation: Operation[I, O]) -> Prepare[I] | None:
        """What makes its input ready, if anything does."""
        return self._prepares.get(operation.name)

    def find_grouped(self, operation: Operation[I, O]) -> Grouped[I, O] | None:
        """How several of them are written together, if they can be."""
        return self._grouped.get(operation.name)

    def __iter__(self) -> Iterator[AnyOperation]:
        return iter(self._operations.values())


def _telling(handler: Handler[Any, Any], listener: Callable[[Caller], Awaitable[None]]) -> Handler[Any, Any]:
    async def handle(caller: Caller, given: Any) -> Any:
        output = await handler(caller, given)
        await listener(caller)
        return output

    return handle
