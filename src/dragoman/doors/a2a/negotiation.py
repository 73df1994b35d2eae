"""Which version of the protocol and which extensions a request speaks."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import structlog

from dragoman.doors.a2a.errors import VersionNotSupported
from dragoman.services.tasks.models import IDEMPOTENCY_EXTENSION
from dragoman.services.workers.profile import PROFILE_EXTENSION, PROFILE_FAMILY, ProfileVersionUnsupported

_LOG = structlog.get_logger(__name__)
VERSION: Final = "1.0"
OLDER: Final = "0.3"
# What clients of the plain paths may call themselves: these were never versioned.
PLAIN: Final = ("0.1", "0.2", OLDER, VERSION)
TOOLS_EXTENSION: Final = "urn:dragoman:a2a:tools:1"
SESSION_EXTENSION: Final = "urn:dragoman:a2a:session-context:1"
SUPPORTED_EXTENSIONS: Final = frozenset({TOOLS_EXTENSION, IDEMPOTENCY_EXTENSION, PROFILE_EXTENSION, SESSION_EXTENSION})


def negotiate_version(
    headers: Mapping[bytes, str],
    query: Mapping[str, str],
    *,
    served: tuple[str, ...] = (VERSION,),
    silent: str = VERSION,
) -> str:
    """The version to answer in: Major.Minor decides, in the header or in the query; `silent` where neither says it.

    Raises:
        VersionNotSupported: it is not served; one that is newer than ours is also logged.
    """
    wanted = _wanted(headers, query)
    return _served(wanted, served) if wanted.strip() else silent


def asks_for_older(headers: Mapping[bytes, str], query: Mapping[str, str]) -> bool:
    """Whether a request for a card names 0.3. One that names anything else learns from the card what is served."""
    return _wanted(headers, query).strip().split(".")[:2] == OLDER.split(".")


def _wanted(headers: Mapping[bytes, str], query: Mapping[str, str]) -> str:
    return headers.get(b"a2a-version") or query.get("A2A-Version") or query.get("a2a-version") or ""


@lru_cache(maxsize=64)
def _served(wanted: str, served: tuple[str, ...]) -> str:
    parts = wanted.strip().split(".")
    if not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
        raise VersionNotSupported(wanted, served)
    asked = (int(parts[0]), int(parts[1]) if len(parts) > 1 else 0)
    for version in served:
        if asked == tuple(int(part) for part in version.split(".")):
            return version
    if asked > tuple(int(part) for part in VERSION.split(".")):
        _LOG.warning("a2a.newer_version", asked=wanted[:20], served=VERSION)
    raise VersionNotSupported(wanted, served)


def negotiate_extensions(headers: Mapping[bytes, str]) -> list[str]:
    """Those that the client asks for and we have; they are named in the answer. None of ours is required.

    Raises:
        ProfileVersionUnsupported: the client speaks another version of the contracts profile, and no other of it.
    """
    asked = headers.get(b"a2a-extensions", "")
    if not asked:
        return []
    uris = [uri.strip() for uri in asked.split(",")]
    profiles = [uri for uri in uris if uri.startswith(PROFILE_FAMILY)]
    if profiles and PROFILE_EXTENSION not in profiles:
        raise ProfileVersionUnsupported(profiles[0].removeprefix(PROFILE_FAMILY))
    return [uri for uri in uris if uri in SUPPORTED_EXTENSIONS]
