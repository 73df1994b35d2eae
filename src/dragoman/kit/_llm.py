"""The small interface behind which every provider stands."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from dragoman.kit._content import Content
from dragoman.kit._thread import Thread


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that were paid for; add them up with `+`."""

    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0

    @property
    def total_tokens(self) -> int:
        """Both ways."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.requests + other.requests,
        )


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model is told of a tool."""

    name: str
    description: str
    input_schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ResponseSchema:
    """The shape that an answer must have, for providers that can enforce it."""

    name: str
    schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class LlmRequest:
    """One turn: the conversation, the tools on offer, and the shape of the answer."""

    thread: Thread
    tools: tuple[ToolSpec, ...] = ()
    response: ResponseSchema | None = None


@dataclass(frozen=True, slots=True)
class LlmResponse:
    """What the model said: text and tool calls, in one content."""

    content: Content
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of text as it arrives."""

    text: str


LlmChunk: TypeAlias = TextDelta | LlmResponse


@runtime_checkable
class Llm(Protocol):
    """A model. It knows nothing of skills and tasks, and keeps no state between calls."""

    @property
    def model(self) -> str:
        """Its name, for logs and bills."""
        ...

    @property
    def native_schema(self) -> bool:
        """Whether it enforces `LlmRequest.response`; where it does not, the schema is written into the prompt."""
        ...

    async def generate(self, request: LlmRequest) -> LlmResponse:
        """Answer once.

        Raises:
            LlmUnavailable: it does not answer.
            LlmRefused: it will not answer this.
        """
        ...

    def stream(self, request: LlmRequest) -> AsyncIterator[LlmChunk]:
        """Answer in pieces: text as it comes, then the whole response, once, at the end."""
        ...


class Metered:
    """A model whose use is added up."""

    def __init__(self, llm: Llm) -> None:
        self._llm = llm
        self.usage = Usage()

    @property
    def model(self) -> str:
        """The name of the model inside."""
        return self._llm.model

    @property
    def native_schema(self) -> bool:
        """What the model inside can do."""
        return self._llm.native_schema

    async def generate(self, request: LlmRequest) -> LlmResponse:
        """Answer once, and count it."""
        response = await self._llm.generate(request)
        self.usage += response.usage
        return response

    async def stream(self, request: LlmRequest) -> AsyncIterator[LlmChunk]:
        """Answer in pieces, and count the whole."""
        async for chunk in self._llm.stream(request):
            if isinstance(chunk, LlmResponse):
                self.usage += chunk.usage
            yield chunk
