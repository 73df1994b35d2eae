"""Versions and ranges as npm writes them: `^1.2`, `~1.2.3`, `1.x`, `>=1 <2 || 3.0.0 - 3.4`."""

import re
from dataclasses import dataclass
from functools import lru_cache, total_ordering

_PART = r"(?:0|[1-9]\d{0,15}|[xX*])"
_PARTIAL = re.compile(
    rf"[v=\s]*({_PART})(?:\.({_PART})(?:\.({_PART})(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?)?)?", re.ASCII
)
_COMPARATOR = re.compile(r"(<=|>=|<|>|=|\^|~>|~)?\s*(\S+)")
_HYPHEN = re.compile(r"^\s*(\S+)\s+-\s+(\S+)\s*$")
_BLANKS_AFTER_OPERATOR = re.compile(r"(<=|>=|<|>|=|\^|~>|~)\s+")


class RangeRefused(Exception):
    """It cannot be read as a version or a range; the message says what was given."""


@total_ordering
@dataclass(frozen=True, slots=True)
class SemVer:
    """A version; a pre-release comes before its release."""

    numbers: tuple[int, int, int]
    prerelease: tuple[str, ...] = ()

    @property
    def _order(self) -> tuple[object, ...]:
        marks = tuple((0, int(mark), "") if mark.isdigit() else (1, 0, mark) for mark in self.prerelease)
        return self.numbers, not self.prerelease, marks

    def __lt__(self, other: "SemVer") -> bool:
        return self._order < other._order


@dataclass(frozen=True, slots=True)
class _Bound:
    """`least <= version < below`, where either may be open."""

    least: SemVer | None = None
    below: SemVer | None = None

    def holds(self, version: SemVer) -> bool:
        return (self.least is None or version >= self.least) and (self.below is None or version < self.below)

    def names_prerelease_of(self, version: SemVer) -> bool:
        return any(
            bound is not None and bound.prerelease and bound.prerelease != ("0",) and bound.numbers == version.numbers
            for bound in (self.least, self.below)
        )


@dataclass(frozen=True, slots=True)
class Range:
    """Sets of bounds: one of the sets must hold whole."""

    alternatives: tuple[tuple[_Bound, ...], ...]

    def holds(self, version: SemVer) -> bool:
        """Whether the version is in it; a pre-release is only in a range that names one of the same release."""
        return any(
            all(bound.holds(version) for bound in bounds)
            and (not version.prerelease or any(bound.names_prerelease_of(version) for bound in bounds))
            for bounds in self.alternatives
        )

    @property
    def least(self) -> SemVer:
        """The smallest version it allows, as far as its bounds say."""
        return min(max((bound.least or _ZERO for bound in bounds), default=_ZERO) for bounds in self.alternatives)


_ZERO = SemVer((0, 0, 0))


@lru_cache(maxsize=4096)
def read_version(text: str) -> SemVer:
    """A whole version; parts that are left out are 0.

    Raises:
        RangeRefused: it is none.
    """
    numbers, prerelease = _partial(text)
    if any(number is None for number in numbers[:1]):
        raise RangeRefused(f"{text!r} is not a version")
    return _filled(numbers, prerelease)


@lru_cache(maxsize=4096)
def read_range(text: str) -> Range:
    """A range.

    Raises:
        RangeRefused: it is none.
    """
    return Range(tuple(_bounds(part) for part in text.split("||")))


def _bounds(part: str) -> tuple[_Bound, ...]:
    if (hyphen := _HYPHEN.match(part)) is not None:
        return (*_comparator(">=", hyphen[1]), *_comparator("<=", hyphen[2]))
    joined = _BLANKS_AFTER_OPERATOR.sub(r"\1", part.strip())
    found: list[_Bound] = []
    for word in joined.replace(",", " ").split():
        matched = _COMPARATOR.fullmatch(word)
        if matched is None:
            raise RangeRefused(f"{part.strip()!r} is not a range of versions")
        found += _comparator(matched[1] or "", matched[2])
    return tuple(found)


def _comparator(operator: str, text: str) -> list[_Bound]:
    numbers, prerelease = _partial(text)
    least = _filled(numbers, prerelease)
    known = sum(number is not None for number in numbers)
    if known == 0:
        return [_Bound(below=_ZERO)] if operator in ("<", ">") else [_Bound()]
    after = _after(numbers, known) if known < 3 else _next(least)
    leading = next((place for place in range(known) if numbers[place]), known - 1)
    bounds = {
        "^": _Bound(least, _after(numbers, leading + 1)),
        "~": _Bound(least, _after(numbers, min(known, 2))),
        ">=": _Bound(least=least),
        ">": _Bound(least=after),
        "<": _Bound(below=_before_prereleases(least) if known < 3 else least),
        "<=": _Bound(below=after),
    }
    return [bounds.get("~" if operator == "~>" else operator, _Bound(least, after))]


Numbers = tuple[int | None, int | None, int | None]


def _partial(text: str) -> tuple[Numbers, tuple[str, ...]]:
    if text.strip() in ("", "*", "x", "X", "latest"):
        return (None, None, None), ()
    matched = _PARTIAL.fullmatch(text.strip())
    if matched is None:
        raise RangeRefused(f"{text!r} is not a version")
    major, minor, patch = (int(part) if part is not None and part.isdigit() else None for part in matched.groups()[:3])
    if major is None:
        minor = None
    if minor is None:
        patch = None
    return (major, minor, patch), tuple(matched[4].split(".")) if matched[4] and patch is not None else ()


def _filled(numbers: Numbers, prerelease: tuple[str, ...]) -> SemVer:
    return SemVer((numbers[0] or 0, numbers[1] or 0, numbers[2] or 0), prerelease)


def _after(numbers: Numbers, count: int) -> SemVer:
    """The first version after all that agree in their first `count` parts; its pre-releases are outside as well."""
    kept = [number or 0 for number in numbers[:count]]
    kept[-1] += 1
    major, minor, patch = (*kept, 0, 0)[:3]
    return SemVer((major, minor, patch), ("0",))


def _before_prereleases(version: SemVer) -> SemVer:
    return SemVer(version.numbers, ("0",))


def _next(version: SemVer) -> SemVer:
    """The smallest version above: of a release its next patch's first pre-release, else one more mark."""
    if version.prerelease:
        return SemVer(version.numbers, (*version.prerelease, "0"))
    major, minor, patch = version.numbers
    return SemVer((major, minor, patch + 1), ("0",))
