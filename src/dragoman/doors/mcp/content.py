"""Parts as MCP shows them: text, images and sounds, and files as resources."""

from base64 import b64decode
from typing import Any

import orjson

from dragoman.doors.mcp.wire import Json


def content_of(part: Json) -> Json:
    """One part, as kit writes it, as a block of content."""
    match part["kind"]:
        case "text":
            return {"type": "text", "text": part["text"]}
        case "file":
            return _file(part)
        case _:
            data: Any = part.get("data", part)
            return {"type": "text", "text": data if isinstance(data, str) else orjson.dumps(data).decode()}


def _file(part: Json) -> Json:
    mime: str = part["mime"]
    name: Any = part.get("name") or "file"
    if part.get("uri") is not None:
        return {"type": "resource_link", "uri": part["uri"], "name": name, "mimeType": mime}
    if mime.startswith(("image/", "audio/")):
        return {"type": mime.partition("/")[0], "data": part["data"], "mimeType": mime}
    inner: Json = {"uri": f"dragoman://file/{name}", "mimeType": mime}
    return {"type": "resource", "resource": inner | _inside(mime, part["data"])}


def _inside(mime: str, data: str) -> Json:
    """What a model can read is given as text, anything else as it is."""
    if mime.startswith("text/") or mime == "application/json":
        try:
            return {"text": b64decode(data).decode()}
        except UnicodeDecodeError:
            pass
    return {"blob": data}
