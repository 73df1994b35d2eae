"""Functions that a model, or a caller by name, can use."""

import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, cast, overload, runtime_checkable

from pydantic import JsonValue

from dragoman.context import Caller
from dragoman.errors import DragomanError, Forbidden
from dragoman.kit._content import Content, DataPart, FilePart, TextPart
from dragoman.kit._effects import Effects, InMemoryEffects
from dragoman.kit._errors import ToolError
from dragoman.kit._llm import ToolSpec
from dragoman.kit._offering import Offered, Offering
from dragoman.kit._ports import Cancellation, InMemoryState, Progress, SilentProgress, State, Uncancelled
from dragoman.kit._results import InputRequired
from dragoman.kit._signature import BadArguments, Signature, read_signature, run_function
from dragoman.kit._validation import readable, to_details, to_json

log = logging.getLogger(__name__)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
# What a caller must be able to do for a tool: follow a task, or answer one kind of question.
Need: TypeAlias = Literal["task", "form", "generation", "folders"]


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may know of the task it works for. A parameter of this type is filled in, and hidden from the model.

    Made without arguments it stands for a call outside of any task.
    """

    call_id: str = ""
    task_id: str | None = None
    context_id: str | None = None
    caller: Caller | None = None
    state: State = field(default_factory=lambda: State(InMemoryState()))
    progress: Progress = field(default_factory=lambda: Progress(SilentProgress()))
    cancellation: Cancellation = field(default_factory=Uncancelled)
    effects: Effects = field(default_factory=InMemoryEffects)

    @property
    def cancelled(self) -> bool:
        """Whether the task is to stop; a tool that runs in a thread can look here."""
        return self.cancellation.is_set()


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave: an output, or an error in words with a code for programs, or a question.

    An output with files in it is `content`; then `output` is what a model is told of it. `cause` is the error that the
    tool raised, for hosts.
    A question of a tool that the caller named is put to the caller, and the tool's skill goes on with the answer in
    `on_input_received`. A model that called the tool is told the question, and may know the answer.
    """

    output: JsonValue
    is_error: bool = False
    code: str | None = None
    details: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    question: InputRequired | None = None
    content: Content | None = None
    cause: DragomanError | None = field(default=None, compare=False, repr=False)

    @classmethod
    def success(cls, output: object = None) -> "ToolResult":
        """It worked; the output is anything that JSON can say, or a part or Content with text, data and files."""
        if isinstance(output, Content | TextPart | DataPart | FilePart):
            content = Content.of(output)
            return cls([_told(part) for part in content.parts], content=content)
        return cls(to_json(output))

    @classmethod
    def error(cls, message: str, code: str | None = None, details: dict[str, Any] | None = None) -> "ToolResult":
        """It did not work; the message is told to the model or the caller."""
        return cls(message, is_error=True, code=code, details=to_details(details))

    @classmethod
    def ask(cls, question: InputRequired) -> "ToolResult":
        """It cannot go on without an answer."""
        return cls(question.message.text, question=question)


Invoke: TypeAlias = Callable[[dict[str, Any], ToolContext], Awaitable[ToolResult]]


@dataclass(frozen=True, slots=True)
class Annotations:
    """Hints for whoever decides if a tool may run unasked."""

    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False


class Tool(Offering):
    """A named function with a schema. Make one with `@tool`; toolsets make theirs with `Tool(...)`.

    One that `may_ask` sometimes gives a question instead of an output. What it `needs` of a caller is checked by doors
    that know what their callers can do. One with `offered` is there for those for whom that is true, and only then.
    """

    def __init__(
        self,
        name: str,
        description: str,
        input_schema: dict[str, Any],
        invoke: Invoke,
        *,
        annotations: Annotations | None = None,
        may_ask: bool = False,
        needs: Iterable[Need] = (),
        offered: Offered | None = None,
    ) -> None:
        super().__init__(offered)
        if not _NAME.fullmatch(name):
            raise ValueError(f"the tool name {name!r} must be 1 to 64 letters, digits, _ or -, and begin with a letter")
        if not description.strip():
            raise ValueError(f"tool {name!r} needs a description: a model chooses by it")
        self.name, self.description = name, description.strip()
        self.input_schema, self.annotations = input_schema, annotations or Annotations()
        self.may_ask, self.needs = may_ask, frozenset(needs)
        self._invoke = invoke

    @property
    def spec(self) -> ToolSpec:
        """What a model is told of it."""
        return ToolSpec(self.name, self.description, self.input_schema)

    async def call(self, arguments: dict[str, Any], ctx: ToolContext | None = None) -> ToolResult:
        """Run it with JSON arguments. Whatever goes wrong is a result, never an exception; only cancellation passes.

        A `ToolError` or a `DragomanError` is told in its own words. Any other exception is logged, and told as
        nothing but a failure, since nobody wrote its text for the ears it would reach.
        """
        ctx = ctx or ToolContext()
        try:
            if not self.is_offered(ctx.caller):
                return ToolResult.error(f"the tool {self.name} is not offered to you now", code=Forbidden.code)
            return await self._invoke(arguments, ctx)
        except BadArguments as error:
            told = f"bad arguments for {self.name}: {readable(error.errors)}"
            errors = [complaint.model_dump() for complaint in error.errors]
            return ToolResult.error(told, code="INVALID_PARAMS", details={"errors": errors})
        except ToolError as error:
            return ToolResult.error(str(error), details=_wait(error.retry_after_s))
        except DragomanError as error:
            details = to_details(error.details | _wait(error.retry_after_s))
            return ToolResult(error.message, is_error=True, code=error.code, details=details, cause=error)
        except Exception:  # the guard between a tool and whoever called it
            log.exception("tool %s failed", self.name)
            return ToolResult.error(f"the tool {self.name} failed", code="INTERNAL_ERROR")

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"


class FunctionTool(Tool):
    """A tool made from a function: still callable as that function, and bound like a method when it is one."""

    def __init__(
        self, function: Callable[..., Any], signature: Signature, name: str, description: str, **options: Any
    ) -> None:
        super().__init__(name, description, signature.schema, self._run, **options)
        self._function, self._signature, self._options = function, signature, options
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself."""
        return self._function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> "FunctionTool":
        if instance is None:
            return self
        bound = cast("Callable[..., Any]", self._function.__get__(instance, owner))
        return FunctionTool(bound, self._signature, self.name, self.description, **self._options)

    async def _run(self, arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        filled = self._signature.read(arguments)
        if self._signature.context_parameter:
            filled[self._signature.context_parameter] = ctx
        given = await run_function(self._function, filled, tenant=ctx.caller.tenant if ctx.caller else None)
        return given if isinstance(given, ToolResult) else ToolResult.success(given)


@runtime_checkable
class Toolset(Protocol):
    """Several tools from elsewhere, asked for when a worker starts."""

    async def list_tools(self) -> Sequence[Tool]:
        """The tools as they are now."""
        ...


ToolSource: TypeAlias = Tool | Toolset


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(
    description: str | None = None,
    /,
    *,
    name: str | None = None,
    read_only: bool = False,
    destructive: bool = False,
    idempotent: bool = False,
    needs: Iterable[Need] = (),
    offered: Offered | None = None,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    given: Callable[..., Any] | str | None = None,
    /,
    *,
    name: str | None = None,
    read_only: bool = False,
    destructive: bool = False,
    idempotent: bool = False,
    needs: Iterable[Need] = (),
    offered: Offered | None = None,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a function or a method; without a description its docstring is one.

    A plain function (not `async`) runs in a thread. What it `needs` is what its caller must be able to do: follow a
    task, or answer a form, a generation or a question for folders. With `offered` it is there for some callers alone.

    Raises:
        TypeError: a parameter has no type that a model could fill, or a read-only tool is said to be destructive.
    """
    if read_only and destructive:
        raise TypeError("a tool that only reads destroys nothing: read_only or destructive, not both")

    def make(function: Callable[..., Any]) -> FunctionTool:
        told = given if isinstance(given, str) else inspect.getdoc(function)
        if not told or not told.strip():
            raise TypeError(f"tool {function.__qualname__} needs a description or a docstring: a model chooses by it")
        signature = read_signature(function, ToolContext, bound=_is_method(function))
        annotations = Annotations(read_only=read_only, destructive=destructive, idempotent=idempotent or read_only)
        return FunctionTool(
            function, signature, name or function.__name__, told, annotations=annotations, needs=needs, offered=offered
        )

    return make(given) if callable(given) else make


def _is_method(function: Callable[..., Any]) -> bool:
    return next(iter(inspect.signature(function).parameters), None) == "self"


def _wait(retry_after_s: int | None) -> dict[str, Any]:
    return {} if retry_after_s is None else {"retry_after_s": retry_after_s}


def _told(part: object) -> JsonValue:
    """What a model is told of a part: a file by its name, kind and size."""
    match part:
        case TextPart(text=text):
            return text
        case DataPart(data=data):
            return data
        case FilePart(name=name, mime=mime, data=data, uri=uri):
            return {"file": name or uri, "mime": mime, "size_bytes": None if data is None else len(data)}
        case _:
            return None


async def gather_tools(sources: Sequence[ToolSource]) -> dict[str, Tool]:
    """All tools by name.

    Raises:
        ValueError: two of them have one name.
    """
    found: dict[str, Tool] = {}
    for source in sources:
        for one in [source] if isinstance(source, Tool) else await source.list_tools():
            if one.name in found:
                raise ValueError(f"two tools are named {one.name!r}")
            found[one.name] = one
    return found
