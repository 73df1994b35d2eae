"""Meaning, as far as there is any: vectors of questions on the spot, vectors of memories behind them."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic

import structlog

from dragoman.errors import UpstreamUnavailable
from dragoman.infra.embeddings import Embedder, EmbedderAway, EmbeddingFailed, as_text
from dragoman.services.memory.store_index import IndexStore, Pending

_LOG = structlog.get_logger(__name__)
_SWEEP_S = 1.0
_BATCH = 32
# A text that fails as often as this is found by its words alone.
_MOST_ATTEMPTS = 5
_REMEMBERED = 2_000
# A question does not wait for an endpoint that just failed; the words answer meanwhile.
_PAUSE_S = 5.0
_LATE_S = 60.0


class Meanings:
    """Keeps the vectors of memories up with the memories, and finds those of questions.

    Memories wait in a table, not in this process: whoever dies loses nothing, and any number of servers share the work.
    """

    def __init__(self, store: IndexStore, embedder: Embedder | None, reason: str) -> None:
        self._store = store
        self._embedder = embedder
        self._reason = reason
        self._vectors = False
        self._woken = asyncio.Event()
        self._questions: OrderedDict[str, str] = OrderedDict()
        self._paused_until = 0.0
        self._failure = ""

    @property
    def stored(self) -> bool:
        """Whether the database can keep vectors at all."""
        return self._vectors

    @property
    def words_alone(self) -> str:
        """Why there are only words; empty when there is meaning too."""
        if self._embedder is None:
            return self._reason
        return "" if self._vectors else "words alone: PostgreSQL has no pgvector 0.8 or newer"

    def wake(self) -> None:
        """Something new waits."""
        self._woken.set()

    async def start(self) -> None:
        """Look what the database can do, and queue everything again if the model is another one now."""
        self._vectors = await self._store.has_vectors()
        if self._embedder is not None and self._vectors and await self._store.use_model(self._embedder.model):
            _LOG.info("memory.model_changed", model=self._embedder.model)

    async def stop(self) -> None:
        """Let go of the model."""
        if self._embedder is not None:
            await self._embedder.stop()

    async def check(self) -> tuple[str, bool]:
        """What to say of it, and whether all is well."""
        if self.words_alone:
            return self.words_alone, True
        late_s = await self._store.oldest_waiting_s()
        if self._failure and late_s:
            return f"words alone for now: {self._failure}", False
        return (f"meaning is {late_s:.0f} s behind", late_s < _LATE_S) if late_s > _SWEEP_S * 5 else ("", True)

    async def find(self, query: str) -> tuple[str, str] | None:
        """The vector as text and the name of its model; None when there are only words."""
        embedder = self._embedder
        if embedder is None or not self._vectors or monotonic() < self._paused_until:
            return None
        if (known := self._questions.get(query)) is not None:
            self._questions.move_to_end(query)
            return known, embedder.model
        try:
            vector = as_text((await embedder.embed([query], urgent=True))[0])
        except EmbeddingFailed as error:
            self._paused_until = monotonic() + _PAUSE_S
            _LOG.warning("memory.question_by_words_alone", reason=str(error))
            return None
        self._questions[query] = vector
        if len(self._questions) > _REMEMBERED:
            self._questions.popitem(last=False)
        return vector, embedder.model

    async def run(self) -> None:
        """Give vectors to what waits, until cancelled; what fails is tried again."""
        embedder = self._embedder
        if embedder is None or not self._vectors:
            return
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), _SWEEP_S)
            self._woken.clear()
            try:
                while await self._batch(embedder):
                    continue
            except (EmbedderAway, UpstreamUnavailable) as error:
                self._failure = str(error)
                _LOG.warning("memory.vectors_postponed", reason=str(error))
                await asyncio.sleep(_PAUSE_S)
            except Exception:  # noqa: BLE001 - a worker loop: it must outlive whatever a batch runs into
                _LOG.exception("memory.vectors_failed")
                await asyncio.sleep(_PAUSE_S)

    async def _batch(self, embedder: Embedder) -> int:
        taken = await self._store.take(_BATCH)
        spent = [item for item in taken if item.content is None or item.attempts > _MOST_ATTEMPTS]
        if spent:
            await self._store.give_up(spent)
        wanted = [item for item in taken if item not in spent]
        if wanted:
            known = await self._store.copy_known(embedder.model, wanted)
            wanted = [item for item in wanted if (item.tenant, item.memory_id, item.version) not in known]
        if wanted:
            await self._embed(embedder, wanted)
        return len(taken)

    async def _embed(self, embedder: Embedder, wanted: Sequence[Pending]) -> None:
        # One unfit text fails its batch; the next time each is by itself, and the others pass.
        batches = [[item for item in wanted if item.attempts == 1], *([item] for item in wanted if item.attempts > 1)]
        left = [batch for batch in batches if batch]
        while left:
            try:
                vectors = await embedder.embed([item.content or "" for item in left[0]])
                await self._store.keep(embedder.model, left[0], [as_text(vector) for vector in vectors])
                self._failure = ""
            except EmbedderAway:
                # It is not for the texts: however long this lasts, none of them is given up.
                await self._store.put_back([item for batch in left for item in batch])
                raise
            except EmbeddingFailed as error:
                self._failure = str(error)
                _LOG.warning("memory.text_refused", number=len(left[0]), reason=str(error))
            del left[0]
