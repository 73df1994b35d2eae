"""What is remembered of a session beside what its client carries: a level of logs, what it follows, that it has ended.

A hash in Valkey for each session that has said such a thing, for as long as the session can last:

    level              from which on its client wants to see lines of logs
    seen/<what>        a digest of what its client was last told of: an address it follows, or one of the lists
    aside/<request>    what it was asked and did not answer
    ended              it is over
    began              there is such a hash, whatever else is in it

Nothing here lets anybody in or keeps anybody out, so it may be lost, and is not worth a row in PostgreSQL: a session
that Valkey has forgotten gets no logs and follows nothing until its client says so again.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, cast
from uuid import UUID

from dragoman import kit
from dragoman.doors.mcp.offer import Valkey
from dragoman.doors.mcp.ticket import Ticket
from dragoman.errors import InvalidInput, UpstreamUnavailable

_MOST_FOLLOWED: Final = 100
_LONGEST_NAME: Final = 2_000
# A field and the life of its hash are set in one step, or a hash could stay for ever.
_SET: Final = "redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) return redis.call('EXPIREAT', KEYS[1], ARGV[3])"
_END: Final = f"redis.call('DEL', KEYS[1]) {_SET}"
# A hash without fields would be gone, and who follows nothing must not be taken for forgotten.
_DROP: Final = f"redis.call('HDEL', KEYS[1], ARGV[4]) {_SET}"
# What is no longer followed must not come back because a stream was just telling of it.
_SAW: Final = "return redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 and redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])"
_SEEN, _ASIDE = "seen/", "aside/"


@dataclass(frozen=True, slots=True)
class Noted:
    """All that is known of one session."""

    ended: bool = False
    level: kit.LogLevel | None = None
    seen: dict[str, str] = field(default_factory=dict[str, str])


class Notes:
    """Of all sessions, shared by all processes."""

    def __init__(self, valkey: Valkey) -> None:
        self._valkey = valkey

    async def find(self, tenant: UUID, ticket: Ticket) -> Noted | None:
        """What is known of a session; None where nothing is, or nothing can be known now."""
        try:
            found: list[bytes] = await self._valkey.call("HGETALL", _key(tenant, ticket))
        except UpstreamUnavailable:
            return None
        fields = {name.decode(): value.decode() for name, value in zip(found[::2], found[1::2], strict=True)}
        return _noted(fields) if fields else None

    async def set_level(self, tenant: UUID, ticket: Ticket, level: kit.LogLevel) -> None:
        """Remember from which level on its client wants to see logs."""
        await self._set(tenant, ticket, "level", level)

    async def follow(self, tenant: UUID, ticket: Ticket, what: str, digest: str) -> None:
        """Remember that it follows something, and what of it is known to its client.

        Raises:
            InvalidInput: it follows too much already.
        """
        if len(what) > _LONGEST_NAME:
            raise InvalidInput.of("uri", f"has more than {_LONGEST_NAME} characters")
        noted = await self.find(tenant, ticket) or Noted()
        if len(noted.seen) >= _MOST_FOLLOWED and what not in noted.seen:
            raise InvalidInput.of("uri", f"a session follows at most {_MOST_FOLLOWED}")
        await self._set(tenant, ticket, _SEEN + what, digest)

    async def saw(self, tenant: UUID, ticket: Ticket, what: str, digest: str) -> None:
        """Its client was told of a change; nothing happens where it does not follow that any more."""
        with suppress(UpstreamUnavailable):
            await self._valkey.call("EVAL", _SAW, 1, _key(tenant, ticket), _SEEN + what, digest)

    async def unfollow(self, tenant: UUID, ticket: Ticket, what: str) -> None:
        """Remember that it does not follow something any more."""
        await self._valkey.call("EVAL", _DROP, 1, _key(tenant, ticket), "began", "1", ticket.expires_at, _SEEN + what)

    async def put_aside(self, tenant: UUID, ticket: Ticket, request: str) -> None:
        """Remember that its client was asked and has not answered, for the call that waits."""
        with suppress(UpstreamUnavailable):
            await self._set(tenant, ticket, _ASIDE + request, "1")

    async def take_up(self, tenant: UUID, ticket: Ticket, request: str) -> bool:
        """Whether a request was put aside; then it is forgotten."""
        with suppress(UpstreamUnavailable):
            return await self._valkey.call("HDEL", _key(tenant, ticket), _ASIDE + request) == 1
        return False

    async def end(self, tenant: UUID, ticket: Ticket) -> None:
        """Remember that it is over, and nothing else."""
        await self._valkey.call("EVAL", _END, 1, _key(tenant, ticket), "ended", "1", ticket.expires_at)

    async def _set(self, tenant: UUID, ticket: Ticket, name: str, value: str) -> None:
        await self._valkey.call("EVAL", _SET, 1, _key(tenant, ticket), name, value, ticket.expires_at)


def _key(tenant: UUID, ticket: Ticket) -> str:
    return f"dragoman:{{{tenant}}}/mcp/{ticket.id.hex}"


def _noted(fields: dict[str, str]) -> Noted:
    return Noted(
        ended="ended" in fields,
        level=cast("kit.LogLevel | None", fields.get("level")),
        seen={name.removeprefix(_SEEN): value for name, value in fields.items() if name.startswith(_SEEN)},
    )
