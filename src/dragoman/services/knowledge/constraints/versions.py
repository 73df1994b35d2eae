"""Whether a dependency is within a range of versions, in the words of its ecosystem."""

from functools import lru_cache

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from dragoman.services.knowledge.constraints.semver import RangeRefused, SemVer, read_range, read_version

PYPI, NPM = "pypi", "npm"


def check_range(text: str) -> None:
    """Refuse a range that neither PEP 440 nor npm can read.

    Raises:
        RangeRefused: with what was given.
    """
    if _specifiers(text) is None:
        read_range(text)


def within(version: str | None, wanted: str, ecosystem: str | None) -> bool | None:
    """Whether the version is in the range; None when that cannot be told.

    A dependency that is itself a range stands for the smallest version that it allows.
    """
    if not version:
        return None
    if ecosystem != NPM and (specifiers := _specifiers(wanted)) is not None:
        pinned = _least_pep440(version)
        if pinned is not None:
            return specifiers.contains(pinned, prereleases=True)
    try:
        return read_range(wanted).holds(_least_npm(version))
    except RangeRefused:
        return None


@lru_cache(maxsize=1024)
def _specifiers(text: str) -> SpecifierSet | None:
    try:
        return SpecifierSet(text)
    except InvalidSpecifier:
        pass
    try:  # a bare version is meant as that version
        return SpecifierSet(f"=={Version(text)}")
    except InvalidVersion:
        return None


@lru_cache(maxsize=4096)
def _least_pep440(text: str) -> Version | None:
    try:
        return Version(text.removeprefix("=="))
    except InvalidVersion:
        pass
    try:
        bounds = [spec for spec in SpecifierSet(text) if spec.operator in (">=", ">", "~=", "==")]
        return max((Version(spec.version.removesuffix(".*")) for spec in bounds), default=Version("0"))
    except (InvalidSpecifier, InvalidVersion):
        return None


def _least_npm(text: str) -> SemVer:
    try:
        return read_version(text)
    except RangeRefused:
        return read_range(text).least
