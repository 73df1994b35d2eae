"""From a layer to the next more general one: what has earned it, may be shared, and is fit to be."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import structlog

from dragoman.context import Caller
from dragoman.errors import DragomanError, InvalidInput, NotFound
from dragoman.infra.db import scope_of
from dragoman.infra.jobs import Job
from dragoman.services.memory.layers import Ids, Layer, may_access, place_of
from dragoman.services.memory.models import AddMemory, PromoteMemory, Promotion, PromotionOutcome
from dragoman.services.memory.ports import PromotionPolicies
from dragoman.services.memory.privacy import clear
from dragoman.services.memory.ranking import promotion_score
from dragoman.services.memory.service import MemoryService
from dragoman.services.memory.store import MemoryStore
from dragoman.services.memory.store_index import Used

_LOG = structlog.get_logger(__name__)
PROMOTED_FROM: Final = 0.8
_GENERAL: Final = {Layer.AGENT: Layer.USER, Layer.SESSION: Layer.PROJECT}
_SECONDS_PER_DAY: Final = 86_400
# More than this wait only where promotion is far slower than use; they come again with their next use.
_MOST_WAITING: Final = 10_000


class Promoter:
    """Copies a memory upwards; the original stays where it is."""

    def __init__(self, memories: MemoryService, store: MemoryStore, policies: PromotionPolicies) -> None:
        self._memories = memories
        self._store = store
        self._policies = policies

    async def promote(self, caller: Caller, wanted: PromoteMemory) -> Promotion:
        """Copy it to the next more general layer, if it has earned that and no policy objects.

        To a layer that others see it goes without credentials and personal data; if those were all it said, it stays.

        Raises:
            NotFound: there is none, or it is another tenant's or another user's.
            InvalidInput: its layer has no way up, or the layer above lacks its id.
        """
        old = await self._store.find(scope_of(caller), wanted.memory_id)
        if old is None or not may_access(caller, old["user_id"]):
            raise NotFound("memory", wanted.memory_id)
        layer = _GENERAL.get(Layer(old["layer"]))
        if layer is None:
            raise InvalidInput.of("memory_id", f"nothing is promoted from the layer {old['layer']}")
        used_at = old["accessed_at"] or old["created_at"]
        idle_days = (datetime.now(UTC) - used_at).total_seconds() / _SECONDS_PER_DAY
        score = promotion_score(old["importance"], old["accesses"], idle_days)
        found: dict[str, Any] = {"outcome": PromotionOutcome.NOT_EARNED}
        if score >= PROMOTED_FROM or wanted.force:
            found = await self._share(caller, old, layer, wanted.ids)
            await self._store.note_promotion(scope_of(caller), wanted.memory_id, found["outcome"].value)
        return Promotion(
            memory_id=wanted.memory_id,
            promoted=found["outcome"] is PromotionOutcome.PROMOTED,
            layer=layer,
            score=round(score, 4),
            needed=PROMOTED_FROM,
            **found,
        )

    async def _share(self, caller: Caller, old: dict[str, Any], layer: Layer, ids: Ids) -> dict[str, Any]:
        if layer is Layer.USER and ids.user_id is None:
            ids = ids.model_copy(update={"user_id": old["user_id"]})
        place = place_of(caller, layer, ids)
        kept = {name: old[name] for name in ("content", "metadata", "tags")}
        found: dict[str, Any] = {}
        if not layer.private:
            cleared = clear(**kept)
            kept = {name: getattr(cleared, name) for name in kept}
            found["redacted"] = cleared.kinds
            if cleared.says_nothing:
                return found | {"outcome": PromotionOutcome.NOTHING_LEFT}
        against = await self._policies.objections(caller, place, kept["content"])
        found["policy_version"] = against.policy_version
        if against.reasons:
            return found | {"outcome": PromotionOutcome.REFUSED, "refusals": against.reasons}
        copy = {
            **kept,
            "layer": layer,
            "ids": ids,
            "importance": old["importance"],
            "expires_at": old["expires_at"],
            "metadata": kept["metadata"] | {"promoted_from": str(old["memory_id"])},
            "source_type": old["source"]["type"],
            "task_id": old["source"].get("task_id"),
        }
        added = await self._memories.add(caller, AddMemory.model_validate(copy))
        return found | {"outcome": PromotionOutcome.PROMOTED, "promoted_to": added.memory_id}


@dataclass(frozen=True, slots=True)
class Earned:
    """A memory that may go up by itself, and the tenant that it is of."""

    tenant: UUID
    wanted: PromoteMemory


class AutoPromotion:
    """Promotes what has earned it by its latest use.

    What waits is kept in this process alone: whatever is lost with it comes again with its next use.
    """

    def __init__(self, promote: Callable[[Earned], Awaitable[Promotion]]) -> None:
        self._promote = promote
        self._waiting: asyncio.Queue[Earned] = asyncio.Queue(_MOST_WAITING)

    def consider(self, used: Used) -> None:
        """Was just used; what has been promoted or refused since it was last changed is left alone."""
        if used.promotion is not None or Layer(used.layer) not in _GENERAL or self._waiting.full():
            return
        project_id = used.ids.get("project_id")
        if Layer(used.layer) is Layer.SESSION and project_id is None:
            return
        if promotion_score(used.importance, used.accesses, 0.0) >= PROMOTED_FROM:
            wanted = {"memory_id": used.memory_id, "ids": {"project_id": project_id}}
            self._waiting.put_nowait(Earned(used.tenant, PromoteMemory.model_validate(wanted)))

    @property
    def job(self) -> Job:
        """Return the job that promotes one after the other: no request waits for it."""
        return Job(name="memory_promotion", work=self._promote_next, every_s=0.0)

    async def _promote_next(self) -> None:
        earned = await self._waiting.get()
        try:
            promotion = await self._promote(earned)
        except DragomanError as error:
            _LOG.warning("memory.not_promoted", memory_id=str(earned.wanted.memory_id), code=error.code)
        else:
            _LOG.info("memory.promoted", memory_id=str(earned.wanted.memory_id), outcome=promotion.outcome.value)
