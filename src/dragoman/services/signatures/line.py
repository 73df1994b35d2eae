"""The line to a provider: what it says becomes an answer, a refusal, or a failure that is worth another attempt."""

from typing import Any, Final, cast

import httpx
import orjson

from dragoman.errors import UpstreamUnavailable
from dragoman.services.signatures.errors import ProviderRefused

Json = dict[str, Any]
_LATER: Final = frozenset({408, 425, 429})
_KNOWN_WORDS: Final = {"errorCode": "error", "code": "error", "message": "message"}


class Line:
    """Requests to one provider, through the guard that every way out goes through."""

    def __init__(self, client: httpx.AsyncClient, provider: str, base_url: str) -> None:
        self._client = client
        self._provider = provider
        self._base_url = base_url.rstrip("/")

    async def ask(self, method: str, path: str, **options: Any) -> Json:
        """The object that the provider answers with.

        Raises:
            ProviderRefused: it said no.
            UpstreamUnavailable: it cannot be reached, or not now; whether it has done it is unknown.
            OutboundRefused: its address must not be reached.
        """
        response = await self._send(method, path, options)
        found = _object(response.content or b"{}")
        if found is None:
            raise UpstreamUnavailable(self._provider)
        return found

    async def read(self, path: str, **options: Any) -> bytes:
        """A file. Raises as `ask` does."""
        return (await self._send("GET", path, options)).content

    async def _send(self, method: str, path: str, options: Json) -> httpx.Response:
        try:
            response = await self._client.request(method, f"{self._base_url}{path}", **options)
        except httpx.HTTPError as error:
            raise UpstreamUnavailable(self._provider) from error
        if response.status_code >= 500 or response.status_code in _LATER:
            raise UpstreamUnavailable(self._provider)
        if not response.is_success:
            raise ProviderRefused(self._provider, response.status_code, _words(response.content))
        return response


def _object(content: bytes) -> Json | None:
    try:
        found = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return cast("Json", found) if isinstance(found, dict) else None


def _words(content: bytes) -> Json:
    """What a provider says in its own words, as far as it is short and plain."""
    said = _object(content) or {}
    found: Json = {}
    for theirs, ours in _KNOWN_WORDS.items():
        value = said.get(theirs)
        if isinstance(value, str) and ours not in found:
            found[ours] = value[:300]
    return found
