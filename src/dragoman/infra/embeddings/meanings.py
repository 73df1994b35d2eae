"""Meaning, as far as there is any: vectors of questions on the spot, vectors of what is kept behind them."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from time import monotonic
from typing import Protocol

import structlog

from dragoman.infra.embeddings.embedder import Embedder, EmbedderAway, EmbeddingFailed, as_text
from dragoman.infra.embeddings.queue import Waiting
from dragoman.infra.jobs import Job

_LOG = structlog.get_logger(__name__)
_SWEEP_S = 1.0
_BATCH = 32
# While one is computed, another is fetched or stored.
_BATCHES = 2
# A text that fails as often as this is found by its words alone.
_MOST_ATTEMPTS = 5
_REMEMBERED = 2_000
# A question does not wait for an endpoint that just failed; the words answer meanwhile.
_PAUSE_S = 5.0
_LATE_S = 60.0


class Queue(Protocol):
    """Where texts wait and where their vectors go."""

    async def has_vectors(self) -> bool:
        """Whether vectors can be kept at all."""
        ...

    async def use_model(self, model: str) -> None:
        """Queue again whatever has only a vector of another model."""
        ...

    async def take(self, most: int) -> list[Waiting]:
        """Some that wait, for a short while nobody else's."""
        ...

    async def settle_known(self, model: str, taken: Sequence[Waiting]) -> list[Waiting]:
        """Give those their vectors for which one is there already; the others."""
        ...

    async def keep(self, model: str, taken: Sequence[Waiting], vectors: Sequence[str]) -> None:
        """Store their vectors and take them off the queue."""
        ...

    async def put_back(self, taken: Sequence[Waiting]) -> None:
        """Let them be taken again, as if they had not been."""
        ...

    async def give_up(self, taken: Sequence[Waiting]) -> None:
        """Take them off the queue without vectors."""
        ...

    async def oldest_waiting_s(self) -> float:
        """The age of the oldest that waits; 0 when none does."""
        ...


class Meanings:
    """Keeps vectors up with the texts they are of, and finds those of questions.

    Texts wait in a table, not in this process: whoever dies loses nothing, and any number of servers share the work.
    """

    def __init__(self, queue: Queue, embedder: Embedder | None, reason: str) -> None:
        self._queue = queue
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
        self._vectors = await self._queue.has_vectors()
        if self._embedder is not None and self._vectors:
            await self._queue.use_model(self._embedder.model)

    async def check(self) -> tuple[str, bool]:
        """What to say of it, and whether all is well."""
        if self.words_alone:
            return self.words_alone, True
        late_s = await self._queue.oldest_waiting_s()
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
            _LOG.warning("embeddings.question_by_words_alone", reason=str(error))
            return None
        self._questions[query] = vector
        if len(self._questions) > _REMEMBERED:
            self._questions.popitem(last=False)
        return vector, embedder.model

    def jobs(self, name: str) -> Sequence[Job]:
        """Return the job that gives vectors to what waits, once started; none where there are only words."""
        embedder = self._embedder
        if embedder is None or not self._vectors:
            return []
        return [Job(name=name, work=partial(self._round, embedder), every_s=_SWEEP_S, wake=self._woken)]

    async def _round(self, embedder: Embedder) -> None:
        try:
            await self._catch_up(embedder)
        except EmbedderAway as error:
            # Told by `check` in words of its own; the job itself is well.
            self._failure = str(error)
            _LOG.warning("embeddings.vectors_postponed", reason=str(error))
            await asyncio.sleep(_PAUSE_S)

    async def _catch_up(self, embedder: Embedder) -> None:
        """Work until nothing waits; what is on its way when another batch fails comes to its end first."""
        if await self._batch(embedder) < _BATCH:
            return
        lanes = await asyncio.gather(*(self._empty(embedder) for _ in range(_BATCHES)), return_exceptions=True)
        for failure in lanes:
            if failure is not None:
                raise failure

    async def _empty(self, embedder: Embedder) -> None:
        while await self._batch(embedder):
            continue

    async def _batch(self, embedder: Embedder) -> int:
        taken = await self._queue.take(_BATCH)
        spent = [item for item in taken if item.content is None or item.attempts > _MOST_ATTEMPTS]
        if spent:
            await self._queue.give_up(spent)
        wanted = [item for item in taken if item not in spent]
        if wanted:
            wanted = await self._queue.settle_known(embedder.model, wanted)
        if wanted:
            await self._embed(embedder, wanted)
        return len(taken)

    async def _embed(self, embedder: Embedder, wanted: Sequence[Waiting]) -> None:
        # One unfit text fails its batch; the next time each is by itself, and the others pass.
        batches = [[item for item in wanted if item.attempts == 1], *([item] for item in wanted if item.attempts > 1)]
        left = [batch for batch in batches if batch]
        while left:
            try:
                vectors = await embedder.embed([item.content or "" for item in left[0]])
                await self._queue.keep(embedder.model, left[0], [as_text(vector) for vector in vectors])
                self._failure = ""
            except EmbedderAway:
                # It is not for the texts: however long this lasts, none of them is given up.
                await self._queue.put_back([item for batch in left for item in batch])
                raise
            except EmbeddingFailed as error:
                self._failure = str(error)
                _LOG.warning("embeddings.text_refused", number=len(left[0]), reason=str(error))
            del left[0]
