"""What a client said when it began, in the era with a handshake: the session id that it sends with all that follows.

The client carries it, so no process has to remember anything. It is no credential: it is good only together with those
of the caller that it was made for, and whoever writes one of their own gains nothing that they could not say anyway.
"""

import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast
from uuid import UUID

import orjson
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION

from dragoman import kit
from dragoman.context import Caller
from dragoman.doors.mcp.wire import Json
from dragoman.errors import NotFound
from dragoman.infra.ids import new_id

# A client whose session has ended begins anew, and few do so without being restarted by a person.
_TTL_S: Final = 7 * 86_400
_LETTERS: Final[dict[kit.Need, str]] = {"form": "e", "generation": "s", "folders": "r"}
_MAC_DIGITS: Final = 32


@dataclass(frozen=True, slots=True)
class Ticket:
    """A session: its number, the version of its protocol, and what its client can be asked."""

    id: UUID
    version: str
    able: frozenset[kit.Need]
    expires_at: int
    text: str


class Tickets:
    """Makes and reads them; every process that has the key reads what another has made."""

    def __init__(self, key: bytes, *, clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self._clock = clock

    def issue(self, caller: Caller, params: object) -> Ticket:
        """For a client that introduces itself with these parameters of `initialize`."""
        given = _object(params)
        version = given.get("protocolVersion")
        spoken = version if version in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION
        able = "".join(_LETTERS[need] for need in sorted(_declared(_object(given.get("capabilities")))))
        body = f"{new_id().hex}.{spoken}.{able}.{int(self._clock()) + _TTL_S}"
        return _read(body, f"{body}.{self._mac(caller, body)}")

    def get(self, caller: Caller, text: str) -> Ticket:
        """The one that the text is.

        Raises:
            NotFound: it is none, is another caller's, or is past its time; all of these look alike.
        """
        body, _, mac = text.rpartition(".")
        if not hmac.compare_digest(mac.encode(), self._mac(caller, body).encode()):
            raise NotFound("session", text[:40])
        ticket = _read(body, text)
        if ticket.expires_at <= self._clock():
            raise NotFound("session", text[:40])
        return ticket

    def sign(self, ticket: Ticket, *said: str) -> str:
        """A mark by which something said in this session is known again."""
        return self._digest(ticket.id.hex, *said)[:_MAC_DIGITS]

    def _mac(self, caller: Caller, body: str) -> str:
        return self._digest(str(caller.tenant), caller.subject, body)[:_MAC_DIGITS]

    def _digest(self, *parts: str) -> str:
        return hmac.digest(self._key, orjson.dumps(parts), "sha256").hex()


def _read(body: str, text: str) -> Ticket:
    number, version, letters, expires_at = body.split(".")
    able = frozenset[kit.Need](need for need, letter in _LETTERS.items() if letter in letters)
    return Ticket(UUID(number), version, able, int(expires_at), text)


def _declared(capabilities: Json) -> set[kit.Need]:
    asked = _object(capabilities.get("elicitation"))
    found: dict[kit.Need, bool] = {
        # Who names no way of being asked means forms; who names only others cannot show one.
        "form": "elicitation" in capabilities and (not asked or "form" in asked),
        "generation": "sampling" in capabilities,
        "folders": "roots" in capabilities,
    }
    return {need for need, able in found.items() if able}


def _object(given: object) -> dict[str, Any]:
    return cast("Json", given) if isinstance(given, dict) else {}
