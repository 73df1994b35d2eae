"""Any endpoint that speaks OpenAI's embeddings."""

from collections.abc import Callable, Sequence
from typing import Any

from dragoman.errors import UpstreamUnavailable
from dragoman.infra.embeddings.embedder import DIMENSIONS, EmbedderAway, EmbeddingFailed, Vector, unit

_TIMEOUT_S = 30.0
# A text that is too long or not fit; all else is about us or about the endpoint.
_OF_THE_TEXT = frozenset({400, 413, 422})


class EndpointEmbedder:
    """Asks `POST <base>/embeddings`; connections are kept, errors are told in words without addresses."""

    def __init__(self, model: str, *, base_url: str, api_key: str, connect: Callable[..., Any]) -> None:
        self._name = model
        self._connect = connect
        self._url = f"{base_url.rstrip('/')}/embeddings"
        self._headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._client: Any = None

    @property
    def model(self) -> str:
        """Vectors of different models cannot be compared; this names the one."""
        return f"openai:{self._name}"

    async def embed(self, texts: Sequence[str], *, urgent: bool = False) -> list[Vector]:  # noqa: ARG002
        """Vectors of what the endpoint calls by its model's name.

        Raises:
            EmbedderAway: it does not answer, or does not let us in.
            EmbeddingFailed: it refuses these texts, or answers with something else.
        """
        import httpx  # noqa: PLC0415 - half of a server's modules, and most servers have no endpoint

        if self._client is None:
            self._client = self._connect(timeout=_TIMEOUT_S, headers=self._headers)
        asked = {"model": self._name, "input": list(texts), "dimensions": DIMENSIONS}
        try:
            response = await self._client.post(self._url, json=asked)
            if response.status_code == 400:  # a model that has one length only
                del asked["dimensions"]
                response = await self._client.post(self._url, json=asked)
            response.raise_for_status()
            found = sorted(response.json()["data"], key=lambda item: item["index"])
            vectors = [unit([float(number) for number in item["embedding"]]) for item in found]
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            failure = EmbeddingFailed if status in _OF_THE_TEXT else EmbedderAway
            raise failure(f"the embedding endpoint answered {status}") from error
        except UpstreamUnavailable as error:
            raise EmbedderAway("the embedding endpoint has failed too often and is left alone for a while") from error
        except httpx.HTTPError as error:
            raise EmbedderAway(f"the embedding endpoint does not answer ({type(error).__name__})") from error
        except (KeyError, TypeError, ValueError) as error:
            raise EmbeddingFailed("the embedding endpoint answered with something else") from error
        if len(vectors) != len(texts):
            raise EmbeddingFailed("the embedding endpoint answered with another number of vectors")
        return list[Vector](vectors)

    async def stop(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None
