"""A benchmark of retrieval on data of our own: made from a seed, with questions whose answers are known.

Every person has a memory of every topic, so that a name alone does not find the answer; every topic is asked about in
words that the memory does not use. Plain BM25 stands beside it as what anybody could have for nothing.
"""

import math
import random
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

CUTS = (5, 10, 20)
_PEOPLE = (
    "Ada", "Bruno", "Chiara", "Dmitri", "Elif", "Farah", "Gustav", "Hana", "Ivo", "Jamila", "Kenji", "Leila", "Marek",
    "Nadia", "Olaf", "Priya", "Quentin", "Rosa", "Stefan", "Tomoko", "Umar", "Vera", "Wanda", "Xavier",
)  # fmt: skip


class Sort(StrEnum):
    """What makes a question hard."""

    LITERAL = "literal"
    PARAPHRASE = "paraphrase"
    UPDATE = "update"
    TIME = "time"
    NEGATION = "negation"


@dataclass(frozen=True, slots=True)
class Topic:
    """A statement with a gap, the words that may fill it, and a question about it in other words."""

    statement: str
    values: tuple[str, ...]
    question: str
    sort: Sort = Sort.PARAPHRASE


@dataclass(frozen=True, slots=True)
class Fact:
    """A memory to add; `before` is what it said until it was corrected."""

    key: str
    content: str
    before: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """What to ask, and the one memory that answers; `past` asks for what held before the corrections."""

    text: str
    answer: str
    sort: Sort
    past: bool = False


_TOPICS = (
    Topic(
        "{n} drinks {x} in the morning.", ("oolong", "espresso", "cocoa", "cider"), "What does {n} have at breakfast?"
    ),
    Topic("{n} is allergic to {x}.", ("peanuts", "shrimp", "pollen", "penicillin"), "What makes {n} ill?"),
    Topic("{n} commutes by {x}.", ("bicycle", "tram", "ferry", "scooter"), "How does {n} get to the office?"),
    Topic("{n} plays the {x}.", ("cello", "trumpet", "harp", "drums"), "Which musical instrument can {n} perform on?"),
    Topic("{n} studied {x} at university.", ("botany", "law", "geology", "Latin"), "What is the degree of {n} in?"),
    Topic("{n} has a {x} at home.", ("tortoise", "beagle", "parrot", "Siamese cat"), "What pet belongs to {n}?"),
    Topic("{n} is afraid of {x}.", ("heights", "spiders", "thunder", "flying"), "What frightens {n}?"),
    Topic("{n} grew up in {x}.", ("Lisbon", "Tallinn", "Nairobi", "Osaka"), "Where did {n} spend their childhood?"),
    Topic("{n} supports the {x} team.", ("chess", "rowing", "handball", "curling"), "Which sport does {n} follow?"),
    Topic(
        "{n} wants to learn {x}.", ("pottery", "Finnish", "welding", "sailing"), "What new skill is {n} interested in?"
    ),
    Topic(
        "{n} reviews pull requests on {x}.",
        ("Mondays", "Fridays", "Sundays"),
        "When does {n} check other people's code?",
    ),
    Topic(
        "{n} writes services in {x}.",
        ("Rust", "Kotlin", "Elixir", "Haskell"),
        "Which programming language does {n} use?",
    ),
    Topic(
        "{n} is responsible for {x}.", ("billing", "onboarding", "search", "payroll"), "Which area is {n} in charge of?"
    ),
    Topic("{n} will be away in {x}.", ("March", "August", "November"), "In which month does {n} go on holiday?"),
    Topic("{n} lives in {x}.", ("Graz", "Porto", "Leeds", "Malmo"), "What is {n}'s place of residence?", Sort.UPDATE),
    Topic("{n} reports to {x}.", ("Mr Holm", "Ms Okafor", "Dr Lindt"), "Who is the boss of {n}?", Sort.UPDATE),
    Topic(
        "{n}'s laptop runs {x}.", ("Debian", "Windows", "Fedora"), "Which operating system does {n} have?", Sort.TIME
    ),
    Topic(
        "{n} sits on the {x} floor.", ("second", "fourth", "ninth"), "Where in the building is {n}'s desk?", Sort.TIME
    ),
    Topic("{n} never eats {x}.", ("meat", "cheese", "fish"), "What food does {n} avoid?", Sort.NEGATION),
    Topic(
        "{n} does not take calls {x}.",
        ("after six", "before ten", "at lunch"),
        "When can {n} not be phoned?",
        Sort.NEGATION,
    ),
    Topic("{n} loves to eat {x}.", ("noodles", "olives", "dumplings"), "Which dish is {n} fond of?"),
    Topic("{n}'s badge number is {x}.", ("48213", "77031", "90455"), "badge number of {n}", Sort.LITERAL),
    Topic(
        "{n} signed the {x} contract.",
        ("Meridian", "Halcyon", "Borealis"),
        "who signed which contract, {n}?",
        Sort.LITERAL,
    ),
)


def make_facts(seed: int = 7, people: int = 24) -> tuple[list[Fact], list[Question]]:
    """The memories and the questions; the same seed gives the same."""
    chance = random.Random(seed)  # noqa: S311 - nothing to guess here
    facts: list[Fact] = []
    questions: list[Question] = []
    for name in _PEOPLE[:people]:
        for number, topic in enumerate(_TOPICS):
            old, new = chance.sample(topic.values, 2)
            key = f"{name}-{number}"
            corrected = topic.sort in (Sort.UPDATE, Sort.TIME)
            before = topic.statement.format(n=name, x=old) if corrected else None
            facts.append(Fact(key, topic.statement.format(n=name, x=new), before))
            past = topic.sort is Sort.TIME
            questions.append(Question(topic.question.format(n=name), key, topic.sort, past=past))
    chance.shuffle(facts)
    return facts, questions


_TOKEN = re.compile(r"\w+")
_ENDINGS = ("ing", "es", "ed", "s")


class Bm25:
    """Okapi BM25 with a light stemmer, over texts by key."""

    def __init__(self, texts: Mapping[str, str], *, k1: float = 1.2, b: float = 0.75) -> None:
        self._k1, self._b = k1, b
        self._counts = {key: Counter(_stems(text)) for key, text in texts.items()}
        self._lengths = {key: sum(count.values()) for key, count in self._counts.items()}
        self._mean = sum(self._lengths.values()) / max(1, len(texts))
        self._spread = Counter(word for count in self._counts.values() for word in count)

    def search(self, query: str, limit: int) -> list[str]:
        """Keys, best first."""
        words = _stems(query)
        scores = {key: self._score(words, key) for key in self._counts}
        # Ties fall as the query has it: any fixed order of the keys would favour the same answers every time.
        luck = {key: zlib.crc32(f"{query}\n{key}".encode()) for key in scores}
        return sorted((key for key in scores if scores[key] > 0), key=lambda key: (-scores[key], luck[key]))[:limit]

    def _score(self, words: Sequence[str], key: str) -> float:
        total = 0.0
        for word in words:
            if count := self._counts[key][word]:
                rare = math.log(1 + (len(self._counts) - self._spread[word] + 0.5) / (self._spread[word] + 0.5))
                long = 1 - self._b + self._b * self._lengths[key] / self._mean
                total += rare * count * (self._k1 + 1) / (count + self._k1 * long)
        return total


def recall(ranked: Sequence[Sequence[str]], questions: Sequence[Question]) -> dict[int, float]:
    """The share of questions whose answer is among the first so many."""
    pairs = list(zip(ranked, questions, strict=True))
    return {cut: sum(asked.answer in keys[:cut] for keys, asked in pairs) / max(1, len(pairs)) for cut in CUTS}


def _stems(text: str) -> list[str]:
    stems: list[str] = []
    for word in _TOKEN.findall(text.casefold()):
        ending = next((end for end in _ENDINGS if word.endswith(end) and len(word) - len(end) >= 3), "")
        stems.append(word.removesuffix(ending))
    return stems
