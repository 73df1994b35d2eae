"""Under which address a client found this server."""

import re
from collections.abc import Mapping
from typing import Any, Final

_HOST: Final = re.compile(r"[A-Za-z0-9.\-]{1,253}(:\d{1,5})?|\[[0-9a-fA-F:.]{2,45}\](:\d{1,5})?")


def base_url(scope: Mapping[str, Any], headers: Mapping[bytes, str]) -> str:
    """Scheme and host, with no slash at the end; a `Host` that is none does not get into what we write."""
    host = headers.get(b"host", "")
    if not _HOST.fullmatch(host):
        server = scope.get("server") or ("localhost", None)
        host = f"{server[0]}:{server[1]}" if server[1] else str(server[0])
    return f"{scope.get('scheme', 'http')}://{host}"
