"""`dragoman bench memory`: how well a running server finds what it was told, beside plain BM25."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any
from uuid import uuid4

import rich_click as click

from dragoman.doors.cli.client import Client
from dragoman.doors.cli.program import program
from dragoman.doors.cli.session import Asked, binding_of, common_options, connect
from dragoman.doors.cli.views import View
from dragoman.infra.embeddings import DIMENSIONS, fuse, meaning_of
from dragoman.services.memory.benchmark import CUTS, Bm25, Fact, Question, Sort, make_facts, recall

_PIECE = 200
_MOST_HITS = 100
_SETTLED_S = 60.0


def bench_commands(help_text: str) -> click.RichGroup:
    """`bench memory`."""
    group = click.RichGroup(name="bench", help=help_text, no_args_is_help=True)
    group.add_command(_memory())
    return group


def _memory() -> click.Command:
    @click.option("--seed", type=int, default=7, help="Other data of the same kind [7].")
    @click.option("--people", type=click.IntRange(1, 24), default=24, help="How many people the data is about [24].")
    def memory(seed: int, people: int, as_json: bool, as_tenant: str | None) -> None:  # noqa: FBT001
        """Measure how well memories are found: recall at 5, 10 and 20, beside plain BM25.

        Remembers made-up facts in a project of their own, asks about them, and forgets them again. The paraphrases,
        updates, times and negations are made from the seed, so the figures can be had by anybody.
        """
        trial = _Trial(connect(Asked(as_json, as_tenant)), *make_facts(seed, people))
        rows = trial.run()
        view = View(as_json=as_json)
        if as_json:
            view.json({"by_meaning": trial.by_meaning, "memories": len(trial.facts), "rows": rows})
            return
        view.rows("retrieval", rows)
        if not trial.by_meaning:
            view.note("The server found by words alone: it has no model, or no pgvector. Its /health says which.")

    command = click.command(epilog=f"Example: {program()} bench memory --people 12")(memory)
    command.params += common_options()
    return command


class _Trial:
    """One run: tell, correct, ask, forget."""

    def __init__(self, client: Client, facts: Sequence[Fact], questions: Sequence[Question]) -> None:
        self.facts = facts
        self.by_meaning = False
        self._client = client
        self._questions = questions
        self._ids = {"project_id": f"bench-{uuid4().hex[:12]}"}
        self._keys: dict[str, str] = {}
        self._told_at = ""

    def run(self) -> list[dict[str, Any]]:
        """One row a sort of question, then all of them."""
        try:
            self._tell()
            self._settle()
            asked = [self._ask(question) for question in self._questions]
        finally:
            self._forget()
        ours = [[self._keys[hit["memory_id"]] for hit in hits] for hits in asked]
        plain = Bm25({fact.key: fact.content for fact in self.facts})
        theirs = [plain.search(question.text, max(CUTS)) for question in self._questions]
        return [self._row(sort, ours, theirs) for sort in [*Sort, None]] + self._signals(asked)

    def _tell(self) -> None:
        for begin in range(0, len(self.facts), _PIECE):
            piece = self.facts[begin : begin + _PIECE]
            new = [{"content": fact.before or fact.content, "layer": "project", "ids": self._ids} for fact in piece]
            ids = self._call("memory.add_many", {"memories": new})["memory_ids"]
            self._keys |= {memory_id: fact.key for memory_id, fact in zip(ids, piece, strict=True)}
        self._told_at = datetime.now(UTC).isoformat()
        corrected = {fact.key: fact.content for fact in self.facts if fact.before is not None}
        for memory_id, key in self._keys.items():
            if key in corrected:
                self._call("memory.update", {"memory_id": memory_id, "content": corrected[key]})

    def _settle(self) -> None:
        """Until the last that was told is found by its meaning, or the server finds by words alone."""
        last = self.facts[-1]
        deadline = time.monotonic() + _SETTLED_S
        while time.monotonic() < deadline:
            asked = {"query": last.content, "ids": self._ids, "layers": ["project"], "limit": 1, "explain": True}
            found = self._call("memory.search", asked)
            self.by_meaning = found["by_meaning"]
            known = found["results"] and found["results"][0]["explanation"]["cosine"] is not None
            if known or not self.by_meaning:
                return
            time.sleep(0.2)

    def _ask(self, question: Question) -> list[dict[str, Any]]:
        asked = {"query": question.text, "ids": self._ids, "layers": ["project"], "limit": _MOST_HITS, "explain": True}
        past = {"as_of": self._told_at} if question.past else {}
        return self._call("memory.search", asked | past)["results"]

    def _signals(self, asked: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
        """What one signal is worth alone, and what is left of the words when the meaning is made of chance."""
        chance = Random(1)  # noqa: S311 - nothing to guess here

        def scored(score: Callable[[float, float], float]) -> list[list[str]]:
            ranked: list[list[str]] = []
            for hits in asked:
                scores = {
                    self._keys[hit["memory_id"]]: score(part["words"], part["meaning"] or 0.0)
                    for hit in hits
                    for part in [hit["explanation"]]
                }
                # Ties fall by chance: the order of the answer would give the other signal away.
                luck = {key: chance.random() for key in scores}
                found = [key for key in scores if scores[key] > 0]
                ranked.append(sorted(found, key=lambda key: (-scores[key], luck[key])))
            return ranked

        ways = {
            "all, words alone": scored(lambda words, _: words),
            "all, meaning alone": scored(lambda _, meaning: meaning),
            "all, words and random vectors": scored(
                lambda words, _: fuse(words, meaning_of(chance.gauss(0, DIMENSIONS**-0.5)))
            ),
        }
        return [self._recalled(name, ranked) for name, ranked in ways.items()]

    def _recalled(self, name: str, ranked: Sequence[list[str]]) -> dict[str, Any]:
        found = recall(ranked, self._questions)
        return {
            "questions": name,
            "number": len(self._questions),
            **{f"recall_{cut}": f"{found[cut]:.3f}" for cut in CUTS},
        }

    def _forget(self) -> None:
        for memory_id in self._keys:
            self._call("memory.delete", {"memory_id": memory_id})

    def _call(self, operation: str, given: Mapping[str, Any]) -> Any:
        return self._client.call(binding_of(operation), given)["data"]

    def _row(self, sort: Sort | None, ours: Sequence[list[str]], theirs: Sequence[list[str]]) -> dict[str, Any]:
        places = [place for place, asked in enumerate(self._questions) if sort in (None, asked.sort)]
        questions = [self._questions[place] for place in places]
        found = recall([ours[place] for place in places], questions)
        plain = recall([theirs[place] for place in places], questions)
        return {
            "questions": sort.value if sort else "all",
            "number": len(questions),
            **{f"recall_{cut}": f"{found[cut]:.3f}" for cut in CUTS},
            **{f"bm25_{cut}": f"{plain[cut]:.3f}" for cut in CUTS},
        }
