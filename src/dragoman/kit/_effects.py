"""Side effects that happen once, and the two exceptions that end a turn from outside its skill.

A turn may run twice: after a crash another process runs it again from its beginning. An effect may not. `Effects.once`
writes down what is about to be done, does it, and writes down what came of it.
"""

import asyncio
import copy
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dragoman.errors import DragomanError
from dragoman.kit._content import Content
from dragoman.kit._questions import Form
from dragoman.kit._results import InputRequired
from dragoman.kit._slot import SkillSlot
from dragoman.kit._validation import to_json

Json: TypeAlias = dict[str, Any]
Perform: TypeAlias = Callable[[str], Awaitable[Json]]
Find: TypeAlias = Callable[[str], Awaitable[Json | None]]


class Effects(Protocol):
    """The ledger of side effects of one task: each happens once, however often the task is tried."""

    async def once(
        self, step: str, request: Json, perform: Perform, *, find: Find | None = None, repeatable: bool = False
    ) -> Json:
        """Perform a side effect unless it was performed before; return its outcome, of now or of then.

        The intent is durable before `perform` is called, with a key that never changes for this task, step and request.
        If a process died in between, nobody knows whether it was done. Then `perform` is called again where the other
        side knows the key and does nothing twice (`repeatable`); else `find` asks the other side what became of the key
        (None: nothing); else a person is asked, and nothing is guessed. A DragomanError that is not retryable says that
        the other side refused: the step counts as not done. After any other exception its outcome is unknown.

        Raises:
            EffectUnknown: only a person can tell; the task waits for the answer.
            AttemptFenced: another process has the task by now; nothing was performed.
        """
        ...


class TurnEnded(BaseException):
    """Ends a turn from outside its skill; the host decides how the task goes on.

    A BaseException, like CancelledError: `except Exception` around a call of a service is common in skills, and would
    turn this into a result of the skill. Clean up in `finally`, and raise it on.
    """


class EffectUnknown(TurnEnded):
    """Nobody knows whether a side effect was done. The task asks a person, and runs the turn again with the answer."""

    def __init__(self, step: str) -> None:
        super().__init__(f"the outcome of the step {step!r} is unknown")
        self.step = step

    def question(self) -> InputRequired:
        """Return what a host asks: the answer is `{"effect": {"step", "done", "outcome"}}`, an `EffectAnswer`."""
        asked = (
            f"The work stopped while the step {self.step!r} was under way. Was it done? "
            f"Answer with effect.step, effect.done and, if it was done, effect.outcome."
        )
        return InputRequired(asked, SkillSlot({"kit.effect": self.step}), asks={"effect": Form.of(asked, _Asked)})


class AttemptFenced(TurnEnded):
    """Another process has the task: nothing that this attempt does counts any more, and it must stop.

    The next call of `ctx.progress`, `ctx.state` or `ctx.effects` raises it.
    """

    def __init__(self) -> None:
        super().__init__("another attempt has the task")


class _Asked(BaseModel):
    step: str
    done: bool


class EffectAnswer(BaseModel):
    """What a person knows of a side effect that the ledger has no outcome of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    step: str = Field(min_length=1, max_length=200)
    done: bool
    outcome: Json = Field(default_factory=dict[str, Any])

    @classmethod
    def find(cls, said: Content, step: str) -> "EffectAnswer | None":
        """Return the answer about this step that a message has in a data part, or None."""
        for value in said.data:
            if isinstance(value, dict) and "effect" in value:
                try:
                    answer = cls.model_validate(value["effect"])
                except ValidationError:
                    continue
                if answer.step == step:
                    return answer
        return None


def find_end(error: BaseException) -> TurnEnded | None:
    """Return the TurnEnded that an exception is or, as a group of exceptions, has; a fence comes before a question."""
    if isinstance(error, TurnEnded):
        return error
    if not isinstance(error, BaseExceptionGroup):
        return None
    ends = [end for part in cast("BaseExceptionGroup[BaseException]", error).exceptions if (end := find_end(part))]
    return next((end for end in ends if isinstance(end, AttemptFenced)), ends[0] if ends else None)


class InMemoryEffects:
    """A ledger that lives as long as the process. `entries` are outcomes by step and digest; None is unknown.

    `unknown` are steps that an earlier attempt began and left without an outcome, for tests of what happens then.
    """

    def __init__(
        self,
        entries: dict[tuple[str, str], Json | None] | None = None,
        *,
        task_id: str = "task",
        unknown: Iterable[str] = (),
    ) -> None:
        self._entries = {} if entries is None else entries
        self._task_id, self._unknown = task_id, set(unknown)

    async def once(
        self, step: str, request: Json, perform: Perform, *, find: Find | None = None, repeatable: bool = False
    ) -> Json:
        """Perform it unless it was performed before.

        Raises:
            EffectUnknown: an earlier call left no outcome, and there is neither `find` nor `repeatable`.
        """
        digest = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
        entry, key = (step, digest), f"{self._task_id}:{step}:{digest[:16]}"
        fresh = entry not in self._entries and step not in self._unknown
        if (outcome := self._entries.setdefault(entry, None)) is not None:
            return copy.deepcopy(outcome)
        if not fresh and not repeatable:
            if find is None:
                raise EffectUnknown(step)
            if (outcome := await find(key)) is not None:
                return self._settle(entry, outcome)
        try:
            outcome = await perform(key)
        except DragomanError as error:
            if not error.retryable:  # refused: it was not done
                del self._entries[entry]
                self._unknown.discard(step)
            raise
        return self._settle(entry, outcome)

    def answer(self, answer: EffectAnswer) -> None:
        """Write down what a person knows of a step without an outcome."""
        self._unknown.discard(answer.step)
        for entry in [entry for entry, outcome in self._entries.items() if entry[0] == answer.step and outcome is None]:
            if answer.done:
                self._entries[entry] = answer.outcome
            else:
                del self._entries[entry]

    def _settle(self, entry: tuple[str, str], outcome: Json) -> Json:
        self._entries[entry] = copy.deepcopy(outcome)
        self._unknown.discard(entry[0])
        return outcome


class TurnEffects:
    """The ledger as one turn sees it: checks what is written down, and lets equal calls at once wait for the first."""

    def __init__(self, effects: Effects) -> None:
        self._effects = effects
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}

    async def once(
        self, step: str, request: Json, perform: Perform, *, find: Find | None = None, repeatable: bool = False
    ) -> Json:
        """Perform a side effect unless it was performed before; return its outcome, of now or of then.

        Requests and outcomes are written as JSON, models and dates in them too. A call with another request is another
        effect, also under the same step. See `Effects.once` for what happens after a crash.

        Raises:
            EffectUnknown: only a person can tell; do not catch it.
            AttemptFenced: another process has the task by now; do not catch it.
            TypeError: the request or the outcome is not an object that JSON can say.
            ValueError: the step has no name, or one of more than 200 characters.
        """
        if not step or len(step) > 200:
            raise ValueError(f"a step has 1 to 200 characters, not {len(step)}")
        written = _object(request, "request")

        async def performed(key: str) -> Json:
            return _object(await perform(key), "outcome")

        async def found(key: str) -> Json | None:
            outcome = None if find is None else await find(key)
            return None if outcome is None else _object(outcome, "outcome")

        entry = (step, json.dumps(written, sort_keys=True))
        async with self._locks.setdefault(entry, asyncio.Lock()):
            return await self._effects.once(
                step, written, performed, find=None if find is None else found, repeatable=repeatable
            )


def _object(value: object, what: str) -> Json:
    written = to_json(value)
    if not isinstance(written, dict):
        raise TypeError(f"the {what} of an effect is an object, not {type(value).__name__}")
    return cast("Json", written)
