"""Surprises in spend: of every kind and size, on days and in services that the seed chooses."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from random import Random
from typing import Final

from dragoman_costs.synthetic.catalogue import MACHINES
from dragoman_costs.synthetic.estate import Resource, Surge, Surprise

# Nothing happens before a series has a past.
_PAST_DAYS: Final = 45
# A surprise leaves the series alone for so long, so that each has a truth of its own.
_APART_DAYS: Final = 30
_KINDS: Final = ("spike", "step", "leak", "drop", "new_service", "intrusion", "spike", "step", "drop", "spike")
_SHARES: Final = (0.15, 0.25, 0.4, 0.6, 1.0, 2.0)
# So many of them happened in the last days: a demo has something to show.
_RECENT: Final = 2
_RECENT_DAYS: Final = 8
_LEAK_DAYS: Final = 10
_FOREVER: Final = 10_000
_NEW: Final = {
    "aws": ("Amazon SageMaker", "AI and Machine Learning", "Notebook", 3.8),
    "azure": ("Azure OpenAI", "AI and Machine Learning", "Deployment", 2.4),
    "gcp": ("Vertex AI", "AI and Machine Learning", "Endpoint", 3.1),
}
_MACHINES: Final = {cloud.service for cloud in MACHINES}
_FAR: Final = {"aws": "ap-southeast-1", "azure": "brazilsouth", "gcp": "asia-south1"}


def surprise(
    rng: Random, resources: Sequence[Resource], *, first_day: date, days: int, count: int
) -> tuple[list[Resource], list[Surge], list[Surprise]]:
    """Return resources to add, what to multiply, and the truth."""
    series: dict[tuple[str, str], list[Resource]] = defaultdict(list)
    for one in resources:
        if one.account.provider != "kubernetes" and one.daily > 0 and one.first == 0:
            series[one.account.identifier, one.service].append(one)
    large = {name: found for name, found in series.items() if sum(one.daily for one in found) > 20}
    busy: dict[tuple[str, str], list[int]] = defaultdict(list)
    added: list[Resource] = []
    surges: list[Surge] = []
    truth: list[Surprise] = []
    for number in range(count):
        kind, share = _KINDS[number % len(_KINDS)], rng.choice(_SHARES)
        names = sorted(name for name in large if kind != "intrusion" or name[1] in _MACHINES)
        first, name = _place(rng, names, busy, days, recent=number < _RECENT)
        last = min(first + rng.choice((0, 1, 2)), days - 1)
        found = large[name]
        total = sum(one.daily for one in found)
        cause = max(found, key=lambda one: one.daily * rng.uniform(0.5, 1))
        if kind == "new_service":
            cause = _forgotten(rng, cause, first)
            if any(one.service == cause.service for one in added):
                continue
            added.append(cause)
            last, share = days - 1, 1.0
        elif kind == "intrusion":
            share, last = max(share, 0.6), min(first + 2, days - 1)
            cause = _intruder(rng, cause, first, last, total * share)
            added.append(cause)
        else:
            last = days - 1 if kind == "step" else last
            until = _FOREVER if kind == "step" else last
            if kind == "drop":
                share = min(share, 0.9)
                surges += [Surge(one.id, first, until, 1 - share) for one in found]
            elif kind == "leak":
                last = min(first + _LEAK_DAYS - 1, days - 1)
                added += (leak := _leak(rng, cause, first, last, total * max(share, 0.4)))
                cause = leak[0]
            elif cause.unit == "Hours":
                cause = _scaled_out(rng, cause, first, until, total * share)
                added.append(cause)
            else:
                surges.append(Surge(cause.id, first, until, 1 + share * total / cause.daily))
        busy[name].append(first)
        where = first_day + timedelta(days=first), first_day + timedelta(days=last)
        truth.append(
            Surprise(kind, cause.account.identifier, cause.service, *where, -share if kind == "drop" else share,
                     cause.region, cause.id)
        )  # fmt: skip
    return added, surges, truth


def _place(
    rng: Random, names: Sequence[tuple[str, str]], busy: dict[tuple[str, str], list[int]], days: int, *, recent: bool
) -> tuple[int, tuple[str, str]]:
    """Return a day and a series that has been left alone."""
    begin = max(_PAST_DAYS, days - _RECENT_DAYS) if recent else _PAST_DAYS
    for _ in range(200):
        name, first = rng.choice(names), rng.randrange(begin, days - 1)
        if all(abs(first - other) >= _APART_DAYS for other in busy[name]):
            return first, name
    raise ValueError("there are too many surprises for so few days")


def _forgotten(rng: Random, like: Resource, first: int) -> Resource:
    """Return something expensive of a service that was never used before."""
    service, category, kind, price = _NEW[like.account.provider]
    return Resource(
        account=like.account, id=f"{kind.lower()}/trial-{rng.randrange(10_000)}", name="trial", type=kind,
        service=service, category=category, region=like.region, sub_account=like.sub_account,
        description=f"{service}, per hour", unit="Hours", quantity=24, price=price, first=first,
    )  # fmt: skip


def _leak(rng: Random, like: Resource, first: int, last: int, daily: float) -> list[Resource]:
    """Return what is started each day and never ended, until somebody notices."""
    count = last - first + 1
    return [
        replace(
            like, id=f"{like.id}-leak-{rng.randrange(10_000)}", name=f"{like.name}-leak", discount=0.0, commitment="",
            quantity=daily / like.price / count, first=first + number, last=last, hints={},
        )
        for number in range(count)
    ]  # fmt: skip


def _scaled_out(rng: Random, like: Resource, first: int, last: int, daily: float) -> Resource:
    """Return machines that were added to one: a machine has no more than 24 hours a day."""
    return replace(
        like, id=f"{like.id}-group-{rng.randrange(10_000)}", name=f"{like.name}-group", type="Group", discount=0.0,
        commitment="", quantity=daily / like.price, first=first, last=last, hints={},
    )  # fmt: skip


def _intruder(rng: Random, like: Resource, first: int, last: int, daily: float) -> Resource:
    """Return what somebody runs in a region that was never used before."""
    return Resource(
        account=like.account, id=f"i-{rng.randrange(16**10):010x}", name="worker", type=like.type,
        service=like.service, category=like.category, region=_FAR[like.account.provider],
        sub_account=like.sub_account, description="GPU machines, per hour", unit=like.unit,
        quantity=daily / 3.06, price=3.06, first=first, last=last,
    )  # fmt: skip
