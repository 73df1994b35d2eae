"""Any server that speaks the OpenAI chat-completions protocol, over httpx; no provider's SDK."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pydantic import SecretStr, ValidationError

from dragoman.backoff import jittered, read_retry_after
from dragoman.kit._errors import LlmRefused, LlmUnavailable
from dragoman.kit._llm import LlmChunk, LlmRequest, LlmResponse, TextDelta
from dragoman.kit._openai_wire import Completion, Gathering, body

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)
T = TypeVar("T")
_LONGEST_WAIT_S = 30.0


class _Again(Exception):
    """A try that may be worth another; `after_s` is what the server asked for."""

    def __init__(self, reason: str, after_s: int | None = None) -> None:
        super().__init__(reason)
        self.after_s = after_s


class OpenAICompatible:
    """A model behind an OpenAI-compatible address.

    A busy or broken server (429, 5xx, no connection, nonsense) is tried again `max_retries` times, with growing
    pauses or the one it asks for. A time-out is not: it has cost enough. It bounds a whole answer, and each wait of
    a stream. The key is never shown or logged.
    `connect` makes the client of httpx, where it should not be an ordinary one.
    `native_schema=False` is for servers that do not know `response_format`; the schema then stands in the prompt.
    """

    def __init__(  # noqa: PLR0913 - every option has a default
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        native_schema: bool = True,
        timeout_s: float = 60.0,
        max_retries: int = 2,
        options: dict[str, Any] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        connect: "Callable[..., httpx.AsyncClient] | None" = None,
    ) -> None:
        self._base_url, self._model = base_url.rstrip("/"), model
        self._api_key = SecretStr(api_key or "")
        self._native_schema, self._timeout_s, self._max_retries = native_schema, timeout_s, max_retries
        self._options, self._sleep = dict(options or {}), sleep
        self._connect = connect
        self._client: httpx.AsyncClient | None = None

    @property
    def model(self) -> str:
        """Its name at the provider."""
        return self._model

    @property
    def native_schema(self) -> bool:
        """Whether the server enforces schemas."""
        return self._native_schema

    async def generate(self, request: LlmRequest) -> LlmResponse:
        """Answer once."""

        async def attempt() -> LlmResponse:
            async with self._post(request, stream=False) as response, asyncio.timeout(self._timeout_s):
                gathering = Gathering()
                gathering.take(_read(await response.aread()))
                if not gathering.finished and not gathering.text and not gathering.calls:
                    raise _Again("the answer has no choices")
                return gathering.response()

        return await self._tried(attempt)

    async def stream(self, request: LlmRequest) -> AsyncGenerator[LlmChunk, None]:
        """Answer in pieces. Only what fails before the first piece is tried again."""
        pieces, first = await self._tried(lambda: self._first_piece(request))
        gathering = Gathering()
        piece: Completion | None = first
        try:
            while piece is not None:
                if text := gathering.take(piece):
                    yield TextDelta(text)
                piece = await anext(pieces, None)
        except _Again as broken:
            raise LlmUnavailable(self._model, str(broken), retry_after_s=broken.after_s) from broken
        finally:
            await pieces.aclose()
        if not gathering.finished:
            raise LlmUnavailable(self._model, "the stream broke off")
        yield gathering.response()

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"OpenAICompatible({self._base_url!r}, {self._model!r})"

    async def _tried(self, attempt: Callable[[], Awaitable[T]]) -> T:
        for number in range(self._max_retries + 1):
            try:
                return await attempt()
            except _Again as again:
                if number == self._max_retries:
                    raise LlmUnavailable(self._model, str(again), retry_after_s=again.after_s) from again
                pause = again.after_s if again.after_s is not None else jittered(2**number)
                log.info("model %s: %s; trying again in %.1f s", self._model, again, pause)
                await self._sleep(min(pause, _LONGEST_WAIT_S))
        raise AssertionError("the last try returns or raises")

    async def _first_piece(self, request: LlmRequest) -> tuple[AsyncGenerator[Completion, None], Completion]:
        pieces = self._pieces(request)
        first = await anext(pieces, None)
        if first is None:
            raise _Again("the stream is empty")
        return pieces, first

    async def _pieces(self, request: LlmRequest) -> AsyncGenerator[Completion, None]:
        async with self._post(request, stream=True) as response:
            async for line in response.aiter_lines():
                field, _, value = line.partition(":")
                if field == "data" and value.strip() == "[DONE]":
                    return
                if field == "data":
                    yield _read(value.encode())

    @asynccontextmanager
    async def _post(self, request: LlmRequest, *, stream: bool) -> AsyncGenerator["httpx.Response", None]:
        httpx = _httpx()
        sent = body(self._model, request, stream=stream, options=self._options)
        try:
            async with self._connected().stream("POST", f"{self._base_url}/chat/completions", json=sent) as response:
                if response.status_code != 200:
                    raise self._failure(response.status_code, response.headers, await response.aread())
                yield response
        except (httpx.TimeoutException, TimeoutError):
            raise LlmUnavailable(self._model, f"no answer within {self._timeout_s:g} s") from None
        except httpx.RequestError as error:
            raise _Again(type(error).__name__) from error

    def _connected(self) -> "httpx.AsyncClient":
        if self._client is None:
            key = self._api_key.get_secret_value()
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            connect: Callable[..., httpx.AsyncClient] = self._connect or _httpx().AsyncClient
            self._client = connect(headers=headers, timeout=self._timeout_s)
        return self._client

    def _failure(self, status: int, headers: "httpx.Headers", answer: bytes) -> Exception:
        if status in (408, 429) or status >= 500:
            return _Again(f"status {status}", read_retry_after(headers.get("retry-after")))
        reason = answer.decode("utf-8", "replace")
        if key := self._api_key.get_secret_value():
            reason = reason.replace(key, "***")
        return LlmRefused(self._model, status=status, reason=reason[:300])


def _read(line: bytes) -> Completion:
    try:
        return Completion.model_validate_json(line)
    except ValidationError as error:
        raise _Again("the answer is not readable") from error


def _httpx() -> ModuleType:
    try:
        import httpx  # noqa: PLC0415 an agent without a remote model does without it
    except ImportError:
        raise ImportError("OpenAICompatible needs httpx: pip install httpx") from None
    return httpx
