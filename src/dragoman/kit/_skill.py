"""Skills: what an agent can do, and the code that does it."""

import inspect
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, cast

from dragoman.errors import DragomanError
from dragoman.kit._answer import answer_by_model
from dragoman.kit._content import Content
from dragoman.kit._context import Context
from dragoman.kit._media import checked_types
from dragoman.kit._results import Completed, Failed, InputRequired, OnInputResult, OnRequestResult, Rejected, Reply
from dragoman.kit._tool import Tool

log = logging.getLogger(__name__)
C = TypeVar("C", bound=type)
_ID = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class SkillInfo:
    """What the world is told of a skill. A message that begins with one of its `openings` is clearly meant for it."""

    id: str
    description: str
    name: str = ""
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    input_modes: tuple[str, ...] = ("text/plain", "application/json")
    output_modes: tuple[str, ...] = ("text/plain", "application/json")
    openings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            hint = re.sub(r"[^a-z0-9]+", "-", self.id.lower()).strip("-")
            suggestion = f" (did you mean {hint!r}?)" if _ID.fullmatch(hint) else ""
            raise ValueError(f"skill id {self.id!r} must be lower-case words joined by . - or _{suggestion}")
        if not self.description.strip():
            raise ValueError(f"skill {self.id!r} needs a description: callers and models choose by it")
        if not self.name:
            object.__setattr__(self, "name", re.sub(r"[._-]", " ", self.id).capitalize())
        for field in ("input_modes", "output_modes"):
            checked_types(getattr(self, field), where=f"skill {self.id!r}, {field}")


class SkillHandler:
    """The logic of a skill. It keeps nothing on `self`: what must survive a turn goes into task state.

    Override `on_request`, and `on_input_received` if it ever asks. A class that only has tools overrides neither:
    its tools can be called by name, and free text is worked on by the agent's model with them.
    """

    skill_info: ClassVar[SkillInfo | None] = None
    tools: ClassVar[Sequence[Tool]] = ()

    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        """Begin a task."""
        own = tools_of(self)
        if not ctx.has_llm:
            names = ", ".join(tool.name for tool in own)
            return Rejected(
                f'without a model this skill is used by its tools: send {{"tool": name}} with one of {names}'
            )
        return await answer_by_model(ctx, content, tools=own)

    async def on_input_received(self, ctx: Context, content: Content) -> OnInputResult:
        """Go on with a task from `ctx.slot`. Called only for a task that waits for input."""
        return await answer_by_model(ctx, content, tools=tools_of(self))


def skill(
    *,
    id: str,  # noqa: A002 the word of every agent card
    description: str,
    name: str = "",
    tags: Iterable[str] = (),
    examples: Iterable[str] = (),
    input_modes: Iterable[str] | None = None,
    output_modes: Iterable[str] | None = None,
    openings: Iterable[str] = (),
) -> Callable[[C], C]:
    """Say what a class can do. It is a SkillHandler, or any class with `@tool` methods or a list of `tools`.

    Raises:
        ValueError: the id or a MIME type is malformed.
        TypeError: the class has neither tools nor an `on_request`.
    """
    modes = {"input_modes": input_modes, "output_modes": output_modes}
    info = SkillInfo(
        id,
        description,
        name,
        tuple(tags),
        tuple(examples),
        openings=tuple(openings),
        **{field: tuple(given) for field, given in modes.items() if given is not None},
    )

    def describe(cls: C) -> C:
        _check_hooks(cls)
        if not _declares_tools(cls) and not _overrides(cls, "on_request"):
            raise TypeError(f"skill {id!r}: {cls.__name__} declares no tools and does not implement on_request")
        setattr(cls, "skill_info", info)  # noqa: B010 the class is any class
        return cls

    return describe


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill of an agent: its description, its handler and its tools.

    A hosted one is not the agent's own, but offered beside it by whoever serves it: a text that happens to mention its
    name is not for it, and it does not keep the only skill of an agent from getting everything.
    """

    info: SkillInfo
    handler: SkillHandler
    tools: tuple[Tool, ...]
    hosted: bool = False

    @property
    def id(self) -> str:
        """What it is called on every wire."""
        return self.info.id

    @classmethod
    def of(cls, given: object) -> "Skill":
        """From a decorated class (made without arguments) or an instance of one; a Skill is one already.

        Raises:
            TypeError: it is not described by `@skill`.
        """
        if isinstance(given, Skill):
            return given
        made = cast("object", given()) if isinstance(given, type) else given
        info = getattr(made, "skill_info", None)
        if not isinstance(info, SkillInfo):
            raise TypeError(f"{type(made).__name__} is no skill: describe it with @skill(id=..., description=...)")
        own = tuple(tools_of(made))
        return cls(info, made if isinstance(made, SkillHandler) else _ToolsOnly(own), own)

    async def run(self, ctx: Context, content: Content) -> OnRequestResult:
        """Take one turn: `on_request`, or `on_input_received` where `ctx` resumes a task. Cancellation passes through.

        Whatever the handler raises becomes Failed: a DragomanError in its own words, anything else logged and hidden.
        """
        try:
            if ctx.resumed:
                return self._checked(await self.handler.on_input_received(ctx, content), ctx)
            return self._checked(await self.handler.on_request(ctx, content), ctx)
        except DragomanError as error:
            reason: object = getattr(error, "reason", error.message)
            log.warning("skill %s failed in task %s: %s, %s", self.id, ctx.task_id, error.code, reason)
            return Failed.of(error)
        except Exception:  # the edge of the agent's code: a task never hangs on an exception
            log.exception("skill %s failed in task %s", self.id, ctx.task_id)
            return Failed("the skill failed; the log says why", "INTERNAL_ERROR")

    def _checked(self, result: object, ctx: Context) -> OnRequestResult:
        hook = "on_input_received" if ctx.resumed else "on_request"
        allowed = (Completed, InputRequired, Failed, *(() if ctx.resumed else (Rejected, Reply)))
        if not isinstance(result, allowed):
            names = ", ".join(one.__name__ for one in allowed)
            raise TypeError(f"{self.id}.{hook} must return one of {names}, not {result!r}")
        asks_by_itself = _overrides(type(self.handler), "on_request")
        if (
            isinstance(result, InputRequired)
            and asks_by_itself
            and not _overrides(type(self.handler), "on_input_received")
        ):
            raise TypeError(f"{self.id} asked a question, but does not implement on_input_received")
        return result


class _ToolsOnly(SkillHandler):
    """The handler of a class that is none."""

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        self.tools = list(tools)  # pyright: ignore[reportAttributeAccessIssue] an instance has its own


def tools_of(handler: object) -> list[Tool]:
    """The tools of its list, then its `@tool` methods, in the order they are written.

    Raises:
        ValueError: two of them have one name.
    """
    listed: Iterable[Any] = getattr(handler, "tools", ())
    found: list[Tool] = []
    for one in (*listed, *_methods(handler)):
        if not isinstance(one, Tool):
            raise TypeError(f"{one!r} is no tool: decorate it with @tool")
        if any(other.name == one.name for other in found):
            raise ValueError(f"two tools are named {one.name!r}")
        found.append(one)
    return found


def _methods(handler: object) -> Iterator[Tool]:
    seen: dict[str, None] = {}
    for cls in reversed(type(handler).__mro__):
        seen.update(dict.fromkeys(name for name, value in vars(cls).items() if isinstance(value, Tool)))
    return (getattr(handler, name) for name in seen)


def _declares_tools(cls: type) -> bool:
    return bool(getattr(cls, "tools", ())) or any(
        isinstance(v, Tool) for one in cls.__mro__ for v in vars(one).values()
    )


def _check_hooks(cls: type) -> None:
    for hook in ("on_request", "on_input_received"):
        written = getattr(cls, hook, None)
        if written is not None and not issubclass(cls, SkillHandler):
            raise TypeError(f"{cls.__name__} implements {hook}, so it must be a SkillHandler")
        if written is not None and not inspect.iscoroutinefunction(written):
            raise TypeError(f"{cls.__name__}.{hook} must be async")


def _overrides(cls: type, method: str) -> bool:
    return getattr(cls, method, None) not in (None, getattr(SkillHandler, method))
