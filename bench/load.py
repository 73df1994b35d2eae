"""A load generator in a process of its own: raw HTTP/1.1 over kept connections.

    closed   each connection sends its next request when the last one is answered: how much at most
    open     requests arrive at a fixed rate, whether or not the server keeps up: how long

In an open loop a latency counts from the moment at which the request was meant to be sent. A server that stalls is
therefore charged for all who would have come meanwhile (no coordinated omission).
"""

import asyncio
import base64
import hmac
import json
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

import uvloop

from bench.spread import Spread

# Twelve characters that each request replaces by a number of its own: a body keeps its length.
NUMBER = "############"
# So many characters as the HMAC-SHA256 in base64 that each request replaces them by.
SIGNATURE = "@" * 44
_DRAIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What to send, to whom, how fast, for how long; a rate of 0 is a closed loop.

    With a `key` each request is signed: the HMAC of `signed`, with the number of the request in it.
    """

    url: str
    request: str
    connections: int
    seconds: float
    warm_s: float = 0.0
    rate: float = 0.0
    first_number: int = 0
    # Where the server speaks TLS: the bundle that vouches for it, then the client's certificate and its key, if any.
    tls: tuple[str, ...] = ()
    key: str = ""
    signed: str = ""


@dataclass(frozen=True, slots=True)
class Load:
    """What came of it. `requests` and `seconds` leave the warm-up out; `answered` does not.

    `lag_ms` is how late the generator itself was; it is part of the latency of an open loop.
    """

    requests: int
    answered: int
    seconds: float
    statuses: dict[str, int]
    broken: int
    latency: Spread
    lag_ms: float

    @property
    def per_s(self) -> float:
        """Answers a second."""
        return self.requests / self.seconds

    @property
    def server_errors(self) -> int:
        """Answers that say it was the server's fault, and connections that broke."""
        return self.broken + sum(count for status, count in self.statuses.items() if status >= "500")


def drive(plan: Plan) -> Load:
    """Run the plan in a fresh process and wait for it.

    Raises:
        RuntimeError: the generator failed, or the server refused what was sent: there is nothing to measure then.
    """
    done = subprocess.run(
        [sys.executable, "-m", "bench.load"],
        input=json.dumps(asdict(plan)),
        capture_output=True,
        text=True,
        timeout=plan.seconds + plan.warm_s + 60,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the load generator failed: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    load = Load(latency=Spread(**found.pop("latency")), **found)
    if refused := {status: count for status, count in load.statuses.items() if "300" <= status < "500"}:
        raise RuntimeError(f"the server refused the load: {refused}")
    return load


def request(method: str, path: str, headers: dict[str, str], body: str = "") -> str:
    """The text of a request, as `Plan` takes it."""
    lines = [f"{method} {path} HTTP/1.1", "host: bench", *(f"{name}: {value}" for name, value in headers.items())]
    if body:
        lines += ["content-type: application/json", f"content-length: {len(body)}"]
    return "\r\n".join(lines) + "\r\n\r\n" + body


@dataclass(slots=True)
class _Tally:
    latencies: list[float] = field(default_factory=list[float])
    lags: list[float] = field(default_factory=list[float])
    statuses: Counter[str] = field(default_factory=Counter[str])
    answered: int = 0
    broken: int = 0
    ended: float = 0.0


class _Client(asyncio.Protocol):
    """One connection with at most one request on it."""

    def __init__(self, answered: Callable[["_Client", str], None], lost: Callable[["_Client"], None]) -> None:
        self._answered = answered
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._pending = b""
        self.meant = 0.0
        self.busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(self, data: bytes, meant: float) -> None:
        """Send it; `meant` is the moment from which its latency counts."""
        self.meant = meant
        self.busy = True
        if self._transport is not None:
            self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        if self._pending:
            data = self._pending + data
        head = data.find(b"\r\n\r\n")
        if head < 0 or not _is_whole(data, head):
            self._pending = data
            return
        self._pending = b""
        self.busy = False
        self._answered(self, data[9:12].decode())

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._lost(self)

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()


def _is_whole(data: bytes, head: int) -> bool:
    lower = data[:head].lower()
    if b"\r\ntransfer-encoding: chunked" in lower:
        return data.endswith(b"\r\n0\r\n\r\n")
    return len(data) >= head + 4 + _body_length(lower)


def _body_length(lower: bytes) -> int:
    at = lower.find(b"\r\ncontent-length:")
    return int(lower[at + 17 :].split(b"\r\n", 1)[0]) if at >= 0 else 0


def _tls(files: tuple[str, ...]) -> ssl.SSLContext | None:
    if not files:
        return None
    context = ssl.create_default_context(cafile=files[0])
    if len(files) > 1:
        context.load_cert_chain(*files[1:])
    return context


class _Run:
    """One plan, from the first request to the last answer."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._text = plan.request.encode()
        self._numbered = NUMBER.encode() in self._text
        self._signed = plan.signed.encode()
        self._number = plan.first_number
        self._tally = _Tally()
        self._idle: deque[_Client] = deque()
        self._arrived: deque[float] = deque()
        self._open = 0
        self._left = 0
        self._over = asyncio.Event()
        self._count_from = self._until = 0.0

    async def run(self) -> Load:
        """Connect, load, wait for the last answer."""
        plan, tally, loop = self._plan, self._tally, asyncio.get_running_loop()
        address = urlsplit(plan.url)
        host, port = address.hostname or "", address.port or 80
        clients: list[_Client] = []
        for _ in range(plan.connections):
            _, client = await loop.create_connection(
                lambda: _Client(self._answered, self._lost), host, port, ssl=_tls(plan.tls)
            )
            clients.append(client)
        self._open = len(clients)
        start = time.perf_counter()
        self._count_from = start + plan.warm_s
        self._until = self._count_from + plan.seconds
        if plan.rate:
            self._idle.extend(clients)
            self._left = int((plan.warm_s + plan.seconds) * plan.rate)
            threading.Thread(target=self._pace, args=(loop, start, self._left), daemon=True).start()
        else:
            for client in clients:
                self._send(client, time.perf_counter())
        async with asyncio.timeout(plan.warm_s + plan.seconds + _DRAIN_S):
            await self._over.wait()
        for client in clients:
            client.close()
        return Load(
            requests=len(tally.latencies),
            answered=tally.answered,
            seconds=tally.ended - self._count_from,
            statuses=dict(tally.statuses),
            broken=tally.broken,
            latency=Spread.of(tally.latencies),
            lag_ms=Spread.of(tally.lags).p99_ms,
        )

    def _pace(self, loop: asyncio.AbstractEventLoop, start: float, total: int) -> None:
        # A thread, because the timers of an event loop have the grain of a millisecond.
        for number in range(total):
            meant = start + number / self._plan.rate
            left_s = meant - time.perf_counter()
            if left_s > 0:
                time.sleep(left_s)
            loop.call_soon_threadsafe(self._arrive, meant)

    def _arrive(self, meant: float) -> None:
        if meant >= self._count_from:
            self._tally.lags.append(time.perf_counter() - meant)
        if self._idle:
            self._send(self._idle.popleft(), meant)
        else:
            self._arrived.append(meant)

    def _send(self, client: _Client, meant: float) -> None:
        data = self._text
        if self._numbered:
            self._number += 1
            data = data.replace(NUMBER.encode(), b"%012d" % self._number)
        if self._plan.key:
            signed = self._signed.replace(NUMBER.encode(), b"%012d" % self._number)
            mac = hmac.digest(self._plan.key.encode(), signed, "sha256")
            data = data.replace(SIGNATURE.encode(), base64.b64encode(mac))
        client.send(data, meant)

    def _answered(self, client: _Client, status: str) -> None:
        now, tally = time.perf_counter(), self._tally
        tally.answered += 1
        # What a client saw is counted whenever it was sent; only its duration waits for the warm-up to end.
        tally.statuses[status] += 1
        if client.meant >= self._count_from:
            tally.latencies.append(now - client.meant)
            tally.ended = now
        if self._plan.rate:
            self._left -= 1
            if self._arrived:
                self._send(client, self._arrived.popleft())
            else:
                self._idle.append(client)
            if self._left <= 0:
                self._over.set()
        elif now < self._until:
            self._send(client, now)
        else:
            self._retire()

    def _lost(self, client: _Client) -> None:
        if self._over.is_set():
            return
        self._tally.broken += 1
        if client in self._idle:
            self._idle.remove(client)
        if client.busy:
            self._left -= 1
        self._retire()

    def _retire(self) -> None:
        self._open -= 1
        if self._open <= 0:
            self._over.set()


def main() -> None:
    """Read a plan from standard input, write what came of it to standard output."""
    plan = Plan(**json.loads(sys.stdin.read()))
    sys.stdout.write(json.dumps(asdict(uvloop.run(_Run(plan).run()))))


if __name__ == "__main__":
    main()
