"""Between the shapes of operations and JSON over HTTP: read an input, write an output."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import parse_qsl

import orjson
from pydantic import BaseModel

from dragoman.arguments import MOST_FIELDS, Texts
from dragoman.errors import InvalidInput, UnsupportedMedia
from dragoman.jsontext import parse_json
from dragoman.operations import Binding, Page

Headers = list[tuple[bytes, bytes]]


def read_query(query: bytes, path: Mapping[str, str]) -> Texts:
    """Return the values of the query string and the path, for the gate to read.

    Raises:
        InvalidInput: it is no query string, or a name stands there twice.
    """
    values = dict(path)
    try:
        pairs = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(query),
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError:
        raise InvalidInput.of("query", "must be a query string such as limit=10&status=active") from None
    for name, value in pairs:
        if name in values:
            raise InvalidInput.of(name[:100], "must be given once")
        values[name] = value
    return Texts(values)


def read_json(body: bytes, content_type: str, extra: Mapping[str, Any]) -> bytes | dict[str, Any]:
    """Return a JSON body for the gate to read: as it is, or its values with those of the path and the headers.

    Raises:
        UnsupportedMedia: the body is not declared as JSON.
        InvalidInput: it is not an object, or has a field that the address or a header gives.
    """
    values: Any = {}
    if body:
        if not _is_json(content_type):
            raise UnsupportedMedia(content_type[:100], expected="application/json")
        if not extra:
            return body
        values = parse_json(body)
        if not isinstance(values, dict):
            raise InvalidInput.of("body", "must be a JSON object")
    given = cast("dict[str, Any]", values)
    for name, value in extra.items():
        if name in given:
            raise InvalidInput.of(name, "is given by the address or a header, not in the body")
        given[name] = value
    return given


def _is_json(content_type: str) -> bool:
    media_type, *parameters = (part.strip().lower() for part in content_type.split(";"))
    charsets = {part.partition("=")[2].strip('"') for part in parameters if part.startswith("charset=")}
    return media_type == "application/json" and charsets <= {"utf-8", "utf8", "us-ascii"}


def read_etag(value: str) -> int:
    """The version that an `If-Match` names.

    Raises:
        InvalidInput: it is not an ETag that this server gave.
    """
    version = value.strip().removeprefix("W/").strip('"').removeprefix("v")
    if not (version.isascii() and version.isdigit() and 0 < len(version) < 10):
        raise InvalidInput.of("If-Match", 'must be the ETag of a response, such as "v3"')
    return int(version)


def reply(binding: Binding, output: BaseModel, request_id: str) -> tuple[int, Headers, bytes]:
    """Status, headers and the success envelope."""
    meta: dict[str, Any] = {"requestId": request_id, "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds")}
    # pydantic writes JSON at once; putting the envelope around its text saves building the tree in between.
    made = getattr(output, "id", None)
    version = getattr(output, "version", None)
    if isinstance(output, Page):
        meta["nextCursor"] = output.next_cursor
        items = cast("list[BaseModel]", output.items)
        data = b"[" + b",".join(item.model_dump_json().encode() for item in items) + b"]"
    else:
        data = output.model_dump_json().encode()
    body = b'{"success":true,"data":' + data + b',"meta":' + orjson.dumps(meta) + b"}"
    headers: Headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    if version is not None:
        headers.append((b"etag", f'"v{version}"'.encode()))
    if binding.status == 201 and made is not None:
        collection = "/".join(binding.path.split("/")[:3])
        headers.append((b"location", f"{collection}/{made}".encode()))
    return binding.status, headers, body
