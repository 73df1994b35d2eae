"""One connection to Valkey that many requests share.

Calls made in one turn of the event loop leave in one write, and replies come back in order: a check costs a future and
a share of a system call. Everything unexpected (a hang, a refusal, a broken stream) ends the connection and fails every
call that waits on it; the owner opens another.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha1
from typing import Any, Final, cast
from urllib.parse import parse_qs, unquote, urlsplit

import hiredis

Part = str | int

_pack: Callable[[tuple[Part, ...]], bytes] = cast("Any", hiredis.pack_command)
_NOTHING: Final = object()
# After a stall of our own loop the reply may lie unread in the socket: look once more before blaming the server.
_GRACE_S: Final = 0.005


class ValkeyLostError(ConnectionError):
    """The server cannot be reached, hangs, or broke the connection."""


class ValkeyRefusedError(Exception):
    """The server answered with an error; its first word says which."""


class ScriptCall:
    """A script with its keys and arguments, ready to be sent as often as one likes."""

    __slots__ = ("_args", "_keys", "_script", "packed")

    def __init__(self, script: str, keys: Sequence[str], args: Sequence[Part]) -> None:
        self._script = script
        self._keys = keys
        self._args = args
        self.packed = _pack(("EVALSHA", _digest(script), len(keys), *keys, *args))

    def pack_whole(self) -> bytes:
        """With the text of the script, for a server that does not have it."""
        return _pack(("EVAL", self._script, len(self._keys), *self._keys, *self._args))


class Wire(asyncio.Protocol):
    """A connection with calls in flight; `open_wire` makes one."""

    def __init__(self, *, timeout_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout_s = timeout_s
        self._reader = hiredis.Reader(replyError=ValkeyRefusedError, notEnoughData=_NOTHING)
        self._waiting: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._outgoing: list[bytes] = []
        self._watch: asyncio.TimerHandle | None = None
        self._suspect: asyncio.Future[Any] | None = None
        self._transport: asyncio.Transport | None = None
        # Resolved with the reason when the connection ends.
        self.lost: asyncio.Future[Exception | None] = self._loop.create_future()

    def call(self, *parts: Part) -> asyncio.Future[Any]:
        """Send a command; the future gives its reply.

        Raises (from the future):
            ValkeyLostError: there is no answer within the time-out, or no connection.
            ValkeyRefusedError: the answer is an error.
        """
        return self._send(_pack(parts))

    def _send(self, packed: bytes) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        if self.lost.done():
            future.set_exception(ValkeyLostError("the connection is closed"))
            return future
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing.append(packed)
        self._waiting.append((future, self._loop.time()))
        if self._watch is None:
            self._watch = self._loop.call_later(self._timeout_s, self._look)
        return future

    async def run(self, call: ScriptCall) -> Any:
        """Run a script by its digest; a server that has forgotten it (restart, SCRIPT FLUSH) is given it again.

        Raises:
            ValkeyLostError, ValkeyRefusedError: as `call`.
        """
        try:
            return await self._send(call.packed)
        except ValkeyRefusedError as error:
            if not str(error).startswith("NOSCRIPT"):
                raise
        return await self._send(call.pack_whole())

    def close(self, reason: Exception | None = None) -> None:
        """End the connection now; what still waits fails with ValkeyLostError."""
        if self.lost.done():
            return
        self.lost.set_result(reason)
        if self._watch is not None:
            self._watch.cancel()
        if self._transport is not None:
            self._transport.abort()
        for future, _ in self._waiting:
            if not future.done():
                future.set_exception(ValkeyLostError(str(reason or "the connection was closed")))
        self._waiting.clear()
        self._outgoing.clear()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what we write to."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Hand each reply to the call that waits longest."""
        reader = self._reader
        reader.feed(data)
        try:
            while (reply := reader.gets()) is not _NOTHING:
                future, _ = self._waiting.popleft()
                if future.done():
                    continue
                if isinstance(reply, ValkeyRefusedError):
                    future.set_exception(reply)
                else:
                    future.set_result(reply)
        except (hiredis.ProtocolError, IndexError) as error:
            self.close(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """The other side went away."""
        self.close(exc)

    def _flush(self) -> None:
        if self._transport is not None and self._outgoing:
            self._transport.write(b"".join(self._outgoing))
            self._outgoing.clear()

    def _look(self) -> None:
        """One timer watches all calls: it wakes when the oldest could be late, not once per call."""
        self._watch = None
        if not self._waiting:
            return
        oldest, sent = self._waiting[0]
        left = sent + self._timeout_s - self._loop.time()
        if left <= 0 and oldest is self._suspect:
            self.close(TimeoutError(f"no answer within {self._timeout_s:g} s"))
            return
        if left <= 0:
            self._suspect = oldest
        self._watch = self._loop.call_later(max(left, _GRACE_S), self._look)


async def open_wire(url: str, *, timeout_s: float) -> Wire:
    """Connect and log in: `unix://[:password@]/path[?db=0]`, `redis://[[user]:password@]host[:port][/db]`, `rediss://…`.

    `rediss` checks the server's certificate; `?ssl_ca_certs=`, `ssl_certfile=` and `ssl_keyfile=` name files.

    Raises:
        ValkeyLostError: nobody answers there within the time-out.
        ValkeyRefusedError: the password or the database is wrong.
    """
    parts = urlsplit(url)
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    loop = asyncio.get_running_loop()

    def new() -> Wire:
        return Wire(timeout_s=timeout_s)

    try:
        async with asyncio.timeout(timeout_s):
            if parts.scheme == "unix":
                _, wire = await loop.create_unix_connection(new, unquote(parts.path))
            elif parts.scheme in {"redis", "rediss"}:
                tls = _tls(options) if parts.scheme == "rediss" else None
                _, wire = await loop.create_connection(new, parts.hostname or "localhost", parts.port or 6379, ssl=tls)
            else:
                raise ValueError(f"a Valkey URL starts with redis, rediss or unix, not {parts.scheme!r}")
    except OSError as error:
        raise ValkeyLostError(str(error) or type(error).__name__) from error
    db = options.get("db") or ("" if parts.scheme == "unix" else parts.path.strip("/"))
    try:
        if parts.password is not None:
            user = [unquote(parts.username)] if parts.username else []
            await wire.call("AUTH", *user, unquote(parts.password))
        if db not in {"", "0"}:
            await wire.call("SELECT", db)
    except BaseException:
        wire.close()
        raise
    return wire


@cache
def _digest(script: str) -> str:
    return sha1(script.encode(), usedforsecurity=False).hexdigest()


def _tls(options: dict[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=options.get("ssl_ca_certs"))
    if certificate := options.get("ssl_certfile"):
        context.load_cert_chain(certificate, options.get("ssl_keyfile"))
    return context
