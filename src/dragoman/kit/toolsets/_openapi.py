"""Every operation of an OpenAPI document as a tool."""

import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from dragoman.backoff import read_retry_after
from dragoman.kit._errors import ToolError
from dragoman.kit._tool import Annotations, Tool, ToolContext, ToolResult
from dragoman.kit.toolsets._document import ApiOperation, Document

log = logging.getLogger(__name__)
_LARGEST_ANSWER_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key that goes with every call, as a header or in the query; it is never shown."""

    name: str
    value: str = field(repr=False)
    place: Literal["header", "query"] = "header"

    @classmethod
    def bearer(cls, token: str) -> Self:
        """The usual header of a token."""
        return cls("Authorization", f"Bearer {token}")


class OpenApiToolset:
    """One tool for each operation. Parameters are arguments by their names; a JSON body is the argument `body`.

    Calls go to `base_url`, or else to the first server of the document, and that host must be in `allow_hosts` unless
    it is the `base_url` you wrote yourself. Redirects are not followed, so that a key cannot be led astray.

    Raises:
        ValueError: the document is not OpenAPI 3, has no usable server, or its server is not allowed.
    """

    def __init__(
        self,
        document: Mapping[str, Any] | Path,
        *,
        base_url: str | None = None,
        api_key: ApiKey | None = None,
        allow_hosts: Collection[str] = (),
        include: Collection[str] | None = None,
        timeout_s: float = 30.0,
        found_at: str | None = None,
    ) -> None:
        if isinstance(document, Path):
            document = _parsed(document.read_text(encoding="utf-8"), str(document))
        read = Document(document)
        self._base_url = base_url.rstrip("/") if base_url else _allowed(read.base_url(found_at), allow_hosts)
        self._api_key, self._timeout_s = api_key, timeout_s
        chosen = (one for one in read.operations() if include is None or one.name in include)
        self._tools = tuple(self._tool(operation) for operation in chosen)

    @classmethod
    async def from_url(cls, url: str, *, timeout_s: float = 30.0, **options: Any) -> Self:
        """Fetch the document first.

        Raises:
            ValueError: there is no such document at this address.
        """
        httpx = _httpx()
        async with httpx.AsyncClient(timeout=timeout_s) as client:
            try:
                response = await client.get(url)
                response.raise_for_status()
            except httpx.HTTPError as error:
                raise ValueError(f"no OpenAPI document at {url}: {type(error).__name__}") from error
        return cls(_parsed(response.text, url), timeout_s=timeout_s, found_at=url, **options)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    async def list_tools(self) -> Sequence[Tool]:
        """The tools, in the order of the document."""
        return self._tools

    def _tool(self, operation: ApiOperation) -> Tool:
        async def invoke(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:  # noqa: ARG001 any tool gets it
            wrong = [f"{name} {complaint}" for name, complaint in operation.complaints(arguments)]
            if wrong:
                return ToolResult.error(f"bad arguments for {operation.name}: {'; '.join(wrong)}", "INVALID_PARAMS")
            return await self._call(operation, arguments)

        annotations = Annotations(
            read_only=operation.method in ("GET", "HEAD"),
            destructive=operation.method == "DELETE",
            idempotent=operation.method in ("GET", "HEAD", "PUT", "DELETE"),
        )
        return Tool(operation.name, operation.description, operation.input_schema, invoke, annotations=annotations)

    async def _call(self, operation: ApiOperation, arguments: dict[str, Any]) -> ToolResult:
        httpx = _httpx()
        query, headers = operation.sent_as("query", arguments), operation.sent_as("header", arguments)
        if self._api_key is not None:
            (headers if self._api_key.place == "header" else query)[self._api_key.name] = self._api_key.value
        url = self._base_url + operation.filled_path(arguments)
        body = {"json": arguments["body"]} if "body" in arguments and operation.body is not None else {}
        try:
            async with httpx.AsyncClient(timeout=self._timeout_s) as client:
                response = await client.request(operation.method, url, params=query, headers=headers, **body)
        except httpx.HTTPError as error:
            log.warning("%s did not answer: %s", operation.name, type(error).__name__)
            raise ToolError(f"the server of {operation.name} does not answer") from error
        return _result(response.status_code, response.content, read_retry_after(response.headers.get("retry-after")))


def _result(status: int, answer: bytes, retry_after_s: int | None) -> ToolResult:
    if len(answer) > _LARGEST_ANSWER_BYTES:
        return ToolResult.error(f"the answer is larger than {_LARGEST_ANSWER_BYTES} bytes; ask for less")
    try:
        value: Any = json.loads(answer) if answer else None
    except ValueError:
        value = answer.decode("utf-8", "replace")
    if 200 <= status < 300:
        return ToolResult.success(value)
    wait = {} if retry_after_s is None else {"retry_after_s": retry_after_s}
    return ToolResult.error(f"status {status}: {json.dumps(value)[:2000]}", details={"status": status, **wait})


def _allowed(url: str | None, allow_hosts: Collection[str]) -> str:
    if url is None:
        raise ValueError("the document names no server: give a base_url")
    host = urlsplit(url).hostname or ""
    if host not in allow_hosts:
        raise ValueError(f"the document's server {host!r} is not in allow_hosts; allow it, or give a base_url")
    return url


def _parsed(text: str, where: str) -> dict[str, Any]:
    try:
        found: object = json.loads(text)
    except ValueError:
        found = _parsed_yaml(text, where)
    if not isinstance(found, dict):
        raise ValueError(f"{where} is no OpenAPI document")  # noqa: TRY004 the document is wrong, not the call
    return {str(name): value for name, value in found.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] any JSON


def _parsed_yaml(text: str, where: str) -> object:
    try:
        import yaml  # noqa: PLC0415 only documents in YAML need it
    except ImportError:
        raise ImportError("OpenAPI documents in YAML need PyYAML: pip install 'dragoman[skills]'") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"{where} is neither JSON nor YAML") from error


def _httpx() -> ModuleType:
    try:
        import httpx  # noqa: PLC0415 an agent without remote tools does without it
    except ImportError:
        raise ImportError("OpenApiToolset needs httpx: pip install httpx") from None
    return httpx
