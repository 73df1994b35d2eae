"""What an agent should know when a conversation begins: memories that fit, and the constraints in force."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final
from uuid import UUID

import structlog
from pydantic import ValidationError

from dragoman import kit
from dragoman.arguments import read_input
from dragoman.context import Caller
from dragoman.errors import DragomanError, Forbidden
from dragoman.gate import Gate
from dragoman.operations import AnyOperation, Handlers, I, O, Operation
from dragoman.services.governance import operations as governance
from dragoman.services.governance.models import LayerIds
from dragoman.services.knowledge import operations as knowledge
from dragoman.services.knowledge.constraints import RANK, Severity
from dragoman.services.knowledge.items import ItemType, Layer
from dragoman.services.memory import operations as memory
from dragoman.services.memory.budget import Fitted, fit, fit_both
from dragoman.services.memory.layers import Ids
from dragoman.services.memory.session_context import LONGEST_ABOUT, SessionContext, ShowContext

Json = dict[str, Any]
_LOG = structlog.get_logger(__name__)
_MEMORIES: Final = 10
_CONSTRAINTS: Final = 50
_MOST_QUERY: Final = 1_000
_MOST_TAGS: Final = 200
_MEMORY_TEXTS: Final = ("content",)
_CONSTRAINT_TEXTS: Final = ("item_title", "constraint", "message")
# What many conversations of one moment ask alike is looked up once; what another process changed is seen after that.
_FRESH_S: Final = 1.0
_MOST_KEPT: Final = 1_000
_LONGEST_S: Final = 1.0
_LONGEST_SEARCH_S: Final = 0.5
# From the most general to the most specific.
_LAYERS: Final = [layer.value for layer in Layer]


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found; not `whole` when something could not be looked up."""

    fitted: Fitted
    whole: bool = True


class SessionContexts:
    """Memories and constraints within a budget, as far as the caller may see them; looking changes nothing."""

    def __init__(
        self, gate: Gate, handlers: Handlers, may: Callable[[Caller, AnyOperation], bool], *, max_characters: int
    ) -> None:
        self._gate = gate
        self._may = may
        self._max_characters = max_characters
        self._kept: dict[UUID, dict[object, tuple[float, _Found]]] = {}
        self._count = 0
        handlers.add(memory.SHOW_CONTEXT, self.show)
        handlers.tell_of_writes({"memory", "knowledge"}, self._forget)

    async def open(self, caller: Caller, session: kit.Session) -> kit.SessionContext:
        """Return what matters to a caller whose conversation begins.

        Raises:
            InvalidInput: the session has ids that nothing can have.
        """
        ids = {**_session_id(session.id), **session.ids}
        wanted = {"about": _plain(session.about), "ids": ids, "max_characters": session.max_characters}
        return kit.SessionContext(**(await self.show(caller, read_input(ShowContext, wanted))).model_dump(mode="json"))

    async def show(self, caller: Caller, wanted: ShowContext) -> SessionContext:
        """Return the memories and constraints that matter; what cannot be looked up now is left out and named.

        Ids that are unknown, or another user's, find nothing.
        """
        # All that decides what a caller may see: another credential of the same person may see less.
        rights = (caller.roles, caller.scopes, caller.type)
        about, ids = _plain(wanted.about), wanted.ids
        place = tuple(sorted(ids.model_dump(exclude_none=True).items()))
        memories = await self._fresh(
            caller, (rights, caller.subject, place, about), lambda: self._memories(caller, about, ids)
        )
        constraints = await self._fresh(caller, (rights, place), lambda: self._constraints(caller, ids))
        fitted = fit_both(
            memories.fitted,
            constraints.fitted,
            (_MEMORY_TEXTS, _CONSTRAINT_TEXTS),
            min(wanted.max_characters or self._max_characters, self._max_characters),
        )
        told = {"memories": (memories, fitted[0]), "constraints": (constraints, fitted[1])}
        return SessionContext.model_validate(
            {
                **{name: shown.items for name, (_, shown) in told.items()},
                "omitted": {name: shown.omitted for name, (_, shown) in told.items()},
                "unavailable": [name for name, (found, _) in told.items() if not found.whole],
            }
        )

    async def _fresh(self, caller: Caller, key: object, look_up: Callable[[], Awaitable[_Found]]) -> _Found:
        tenants = self._kept.get(caller.tenant)
        if tenants is not None and (kept := tenants.get(key)) is not None and monotonic() - kept[0] < _FRESH_S:
            return kept[1]
        try:
            async with asyncio.timeout(_LONGEST_S):
                found = await look_up()
        except (DragomanError, TimeoutError) as error:
            found = _missed(error)
        if self._count >= _MOST_KEPT:
            self._kept.clear()
            self._count = 0
        self._kept.setdefault(caller.tenant, {})[key] = (monotonic(), found)
        self._count += 1
        return found

    async def _forget(self, caller: Caller) -> None:
        self._count -= len(self._kept.pop(caller.tenant, ()))

    async def _memories(self, caller: Caller, about: str, ids: Ids) -> _Found:
        """Those that fit what it is about; the newest where that is unknown, or where finding them takes too long."""
        place = ids.model_dump(exclude_none=True)
        newest = await self._read(caller, memory.LIST, {"limit": _MEMORIES, "ids": place})
        found: list[Any] = newest.items if newest is not None else []
        if found and about:
            asked = {"limit": _MEMORIES, "ids": place, "query": about[:_MOST_QUERY]}
            try:
                async with asyncio.timeout(_LONGEST_SEARCH_S):
                    fitting = await self._read(caller, memory.SEARCH, asked)
                found = fitting.results if fitting is not None else []
            except TimeoutError:  # the model may be on its way up
                pass
        shown = [_memory(one.model_dump(mode="json")) for one in found]
        return _Found(fit(shown, _MEMORY_TEXTS, self._max_characters))

    async def _constraints(self, caller: Caller, ids: Ids) -> _Found:
        """The rules of policies after they have met each other, and what knowledge.check blocks on besides."""
        found: dict[tuple[str, str], Json] = {}
        whole = True
        for look_up in (self._rules, self._demands):
            try:
                for one in await look_up(caller, ids):
                    known = found.setdefault((one["item_id"], one["constraint"]), one)
                    known["severity"] = max(known["severity"], one["severity"], key=lambda name: RANK[Severity(name)])
            except DragomanError as error:
                whole = _missed(error).whole
        ranked = sorted(found.values(), key=_importance)
        fitted = fit(ranked[:_CONSTRAINTS], _CONSTRAINT_TEXTS, self._max_characters)
        return _Found(Fitted(fitted.items, len(ranked) - len(fitted.items)), whole)

    async def _rules(self, caller: Caller, ids: Ids) -> list[Json]:
        policies = await self._read(caller, governance.LIST_POLICIES, {"ids": _layer_ids(ids.model_dump())})
        rules = [rule.model_dump(mode="json") for rule in policies.rules] if policies is not None else []
        return [
            _constraint(rule, rule["policy_id"], rule["policy_title"], ItemType.POLICY.value)
            for rule in rules
            if rule["severity"] != Severity.INFO.value
        ]

    async def _demands(self, caller: Caller, _: Ids) -> list[Json]:
        asked = {"min_severity": Severity.BLOCK.value}
        listed = await self._read(caller, knowledge.LIST_CONSTRAINTS, asked)
        demands = [one.model_dump(mode="json") for one in listed.constraints] if listed is not None else []
        return [_constraint(one, one["item_id"], one["item_title"], one["item_type"]) for one in demands]

    async def _read(self, caller: Caller, operation: Operation[I, O], raw: Json) -> O | None:
        """Run a read through the gate; None where the caller may not, which is no attempt of the caller to record.

        It is not counted: the message or the request that begins the session was.
        """
        if not self._may(caller, operation):
            return None
        try:
            return await self._gate.run(operation, caller, raw, admitted=self._gate.include(operation, caller))
        except Forbidden:  # layers of another user look like layers with nothing in them
            return None


def _missed(error: Exception) -> _Found:
    _LOG.warning("session.not_known", reason=str(error) or type(error).__name__)
    return _Found(Fitted([]), whole=False)


def _plain(about: str) -> str:
    """What was said, without characters that a question may not have."""
    kept = (character if character.isprintable() else " " for character in about[:LONGEST_ABOUT])
    return "".join(kept).strip()


def _memory(found: Json) -> Json:
    tags, room = list[str](), _MOST_TAGS
    for tag in found["tags"]:
        room -= len(tag)
        if room >= 0:
            tags.append(tag)
    return {
        "memory_id": found["memory_id"],
        "content": found["content"],
        "layer": found["layer"],
        "tags": tags,
        "score": found.get("score"),
        "truncated": len(tags) < len(found["tags"]),
    }


def _constraint(found: Json, item_id: str, title: str, item_type: str) -> Json:
    return {
        "item_id": item_id,
        "item_title": title,
        "item_type": item_type,
        "policy_id": item_id if item_type == ItemType.POLICY.value else None,
        "layer": found["layer"],
        "mandatory": found.get("mandatory", False),
        "severity": found["severity"],
        "constraint": found["constraint"],
        "message": found["message"],
        "truncated": False,
    }


def _importance(one: Json) -> tuple[int, bool, int, str]:
    """What blocks comes first, then what may not be lessened, then what is said closest to the work."""
    return -RANK[Severity(one["severity"])], not one["mandatory"], -_LAYERS.index(one["layer"]), one["item_id"]


def _session_id(name: str) -> Json:
    """The id of a session, where it can be one of memory: a context may have a name that no session has."""
    try:
        return Ids.model_validate({"session_id": name or None}).model_dump(exclude_none=True)
    except ValidationError:
        return {}


def _layer_ids(ids: Mapping[str, Any]) -> Json:
    """The ids that policies know; one that no policy can have is left out, which shows more rules and never fewer."""
    fitting: Json = {}
    for name in LayerIds.model_fields:
        try:
            LayerIds.model_validate({name: ids[name]})
        except ValidationError:
            continue
        fitting[name] = ids[name]
    return {name: value for name, value in fitting.items() if value is not None}
