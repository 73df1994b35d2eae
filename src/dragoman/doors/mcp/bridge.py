"""MCP over the pipes of a process: every line goes to a running server as it is, and its answers come back as lines.

Nothing is decided here, so what a client finds is what the server serves. It needs no SDK.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import httpx
import orjson

from dragoman.doors.mcp.wire import Json, read_object

_ACCEPTS: Final = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
_VERSION_META: Final = "io.modelcontextprotocol/protocolVersion"
_NAMES: Final = ("name", "uri", "taskId")
# A tool may take as long as it takes; only a server that is not there is given up.
_TIMEOUTS: Final = httpx.Timeout(10, read=None)
_SESSION: Final = "mcp-session-id"
_GONE: Final = 404
# Streams end in good order every quarter of an hour, and servers are replaced.
_AGAIN_S: Final = 1.0


class Bridge:
    """Between one client at the pipes and one server."""

    def __init__(self, url: str, token: Callable[[], str], *, out: BinaryIO, trusted_cert: Path | None = None) -> None:
        self._url = f"{url}/mcp"
        self._token = token
        self._out = out
        self._version = ""
        self._session = ""
        self._introduction = b""
        self._mending = asyncio.Lock()
        self._under_way: dict[Any, asyncio.Task[None]] = {}
        self._streams: set[asyncio.Task[None]] = set()
        # What the client was asked and has not answered, with the call that waits for it.
        self._asked: dict[Any, asyncio.Task[Any]] = {}
        verify: Any = True
        if trusted_cert is not None:
            import ssl  # noqa: PLC0415 - most servers stay on this machine and need none of it

            verify = ssl.create_default_context(cafile=str(trusted_cert))
        self._http = httpx.AsyncClient(timeout=_TIMEOUTS, verify=verify)

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        """Until the client closes its end; what is under way is answered first, except what waits for the client."""
        async with self._http:
            async for line in lines:
                if line.strip():
                    await self._take(line)
            for stream in {*self._streams, *self._asked.values()}:
                stream.cancel()
            await asyncio.gather(*self._under_way.values(), return_exceptions=True)

    async def _take(self, line: bytes) -> None:
        message = read_object(line)
        method, rpc_id = message.get("method"), message.get("id")
        if method == "notifications/cancelled":
            self._cancel(message)
        elif method == "initialize":
            # What comes of the handshake, a version and a session, is part of every later request.
            self._introduction = line
            await self._forward(line, message)
        elif method is None or rpc_id is None:
            self._asked.pop(rpc_id, None)
            await self._forward(line, message)
            if method == "notifications/initialized" and self._session:
                self._keep(asyncio.create_task(self._listen()))
        else:
            work = asyncio.create_task(self._forward(line, message))
            self._under_way[rpc_id] = work
            work.add_done_callback(lambda _: self._under_way.pop(rpc_id, None))
            if method == "subscriptions/listen":
                self._keep(work)

    def _keep(self, stream: asyncio.Task[None]) -> None:
        """Have a stream end with the client: it has no answer to wait for."""
        self._streams.add(stream)
        stream.add_done_callback(self._streams.discard)

    def _cancel(self, message: Json) -> None:
        """Hang up on a request: that is how its server hears of it."""
        params = message.get("params")
        named = cast("Json", params).get("requestId") if isinstance(params, dict) else None
        if isinstance(named, str | int) and (work := self._under_way.get(named)) is not None:
            work.cancel()

    async def _forward(self, line: bytes, message: Json) -> None:
        try:
            session = self._session
            if await self._exchange(line, message) == _GONE and session:
                await self._begin_anew(session)
                await self._exchange(line, message, last=True)
        except httpx.HTTPError as error:
            self._fail(message, f"cannot reach {self._url}: {error or type(error).__name__}")

    async def _exchange(self, line: bytes, message: Json, *, last: bool = False) -> int:
        """Pass a message on and its answers back; the status, where the session is gone and that can be mended."""
        async with self._http.stream("POST", self._url, content=line, headers=self._headers(message)) as response:
            if message.get("method") == "initialize":
                self._session = response.headers.get(_SESSION, "")
            if response.headers.get("content-type", "").startswith("text/event-stream"):
                await self._pass_on(response, message)
            elif response.status_code == _GONE and self._session and not last:
                return _GONE
            else:
                self._answer(response.status_code, await response.aread(), message)
        return response.status_code

    async def _pass_on(self, response: httpx.Response, message: Json) -> None:
        async for event in response.aiter_lines():
            if event.startswith("data:"):
                body = event[5:].strip().encode()
                told = read_object(body)
                if "method" in told and "id" in told and (work := asyncio.current_task()) is not None:
                    self._asked[told["id"]] = work
                self._write(body, message)

    async def _begin_anew(self, session: str) -> None:
        """Introduce the client again, with its own words: at pipes it would not hear that its session has ended."""
        async with self._mending:
            if self._session == session:
                self._session = ""
                headers = self._headers({"method": "initialize"})
                answer = await self._http.post(self._url, content=self._introduction, headers=headers)
                self._session = answer.headers.get(_SESSION, "")

    async def _listen(self) -> None:
        """What the server tells by itself, for as long as the client is there."""
        while True:
            with suppress(httpx.HTTPError):
                session, headers = self._session, self._headers({})
                async with self._http.stream("GET", self._url, headers=headers) as response:
                    if response.status_code == _GONE:
                        await self._begin_anew(session)
                    elif response.is_success:
                        await self._pass_on(response, {})
            await asyncio.sleep(_AGAIN_S)

    def _headers(self, message: Json) -> dict[str, str]:
        """What the protocol has proxies read, from what the message says."""
        headers = {**_ACCEPTS, "authorization": f"Bearer {self._token()}"}
        params: Any = message.get("params")
        given = cast("Json", params) if isinstance(params, dict) else {}
        meta: Any = given.get("_meta")
        version = cast("Json", meta).get(_VERSION_META) if isinstance(meta, dict) else None
        if isinstance(version, str):
            headers["mcp-method"] = str(message.get("method"))
            named = next((given[name] for name in _NAMES if isinstance(given.get(name), str)), None)
            if named is not None:
                headers["mcp-name"] = named
        if (spoken := version or self._version) and message.get("method") != "initialize":
            headers["mcp-protocol-version"] = str(spoken)
        if self._session and message.get("method") != "initialize" and version is None:
            headers[_SESSION] = self._session
        return headers

    def _answer(self, status: int, body: bytes, message: Json) -> None:
        answer = read_object(body)
        if answer.get("jsonrpc") == "2.0":
            self._write(body, message)
        elif status >= 400:
            self._fail(message, str(answer.get("detail") or f"the server answered {status}"), answer)

    def _fail(self, message: Json, why: str, data: Json | None = None) -> None:
        if (rpc_id := message.get("id")) is not None:
            error: Json = {"code": -32000, "message": why} | ({"data": data} if data else {})
            self._write(orjson.dumps({"jsonrpc": "2.0", "id": rpc_id, "error": error}), message)

    def _write(self, body: bytes, message: Json) -> None:
        if message.get("method") == "initialize":
            result: Any = read_object(body).get("result")
            if isinstance(result, dict):
                self._version = str(cast("Json", result).get("protocolVersion", ""))
        # On one line, whatever it looked like.
        self._out.write(body.replace(b"\n", b" ") + b"\n")
        self._out.flush()


def bridge(url: str, token: Callable[[], str], trusted_cert: Path | None = None) -> None:
    """Serve the client at standard input and output."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as out, suppress(KeyboardInterrupt):
        # What anything else prints must not get between the messages.
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        asyncio.run(Bridge(url, token, out=out, trusted_cert=trusted_cert).run(_lines()))


async def _lines() -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.buffer.readline):
        yield line
