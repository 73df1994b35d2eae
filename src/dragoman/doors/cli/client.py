"""The command line as a client of a running server, over its REST addresses."""

import http.client
import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlencode, urlsplit

from dragoman.doors.cli.endings import Refused, Unreachable, WrongUsage
from dragoman.doors.cli.program import program
from dragoman.operations import Binding

_TIMEOUT_S = 120


class Client:
    """Calls operations on the server and gives their data back.

    The standard library's client: a friendlier one takes longer to import than a request takes.
    """

    def __init__(self, url: str, token: str, *, trusted_cert: Path | None = None) -> None:
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise WrongUsage(f"{url!r} is not the address of a server; DRAGOMAN_URL is like http://127.0.0.1:8080")
        self.url = url
        self._prefix = parts.path.rstrip("/")
        self._headers = {"authorization": f"Bearer {token}", "accept": "application/json"}
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, port
        self._trusted_cert = trusted_cert

    def call(self, binding: Binding, given: Mapping[str, Any], *, idempotency_key: str | None = None) -> dict[str, Any]:
        """Return the success envelope of an operation; a write with an idempotency key happens once.

        Raises:
            Refused: the server answered with a problem.
            Unreachable: it did not answer.
        """
        values = dict(given)
        path = self._prefix + binding.path
        for name in binding.parameters:
            path = path.replace(f"{{{name}}}", quote(str(values.pop(name)), safe=""))
        headers = self._headers | _key_header(idempotency_key)
        if (version := values.pop("expected_version", None)) is not None:
            headers["if-match"] = f'"v{version}"'
        body = None
        if binding.method == "GET":
            path += f"?{urlencode(_as_query(values))}" if values else ""
        else:
            body = json.dumps(values).encode()
            headers["content-type"] = "application/json"
        return self._send(binding.method, path, body, headers)

    def exchange(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, idempotency_key: str | None = None
    ) -> dict[str, Any]:
        """Return the answer of an A2A address; a message with an idempotency key becomes one task.

        Raises:
            Refused: the server answered with an error.
            Unreachable: it did not answer.
        """
        headers = self._headers | _key_header(idempotency_key)
        headers |= {"a2a-version": "1.0", "content-type": "application/json"}
        sent = json.dumps(body).encode() if body is not None else None
        return self._send(method, self._prefix + path, sent, headers)

    def _send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> dict[str, Any]:
        try:
            with closing(self._connect()) as connection:
                connection.request(method, path, body, headers)
                response = connection.getresponse()
                text = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(getattr(error, "strerror", None) or str(error) or type(error).__name__) from error
        answer = _object(text)
        if answer is None:
            raise self._unreachable(f"it answered {response.status}, but not as Dragoman does")
        if response.status < 300:
            return answer
        wait = response.headers.get("retry-after", "")
        raise Refused(_problem(answer), retry_after_s=int(wait) if wait.isdigit() else None)

    def _connect(self) -> http.client.HTTPConnection:
        if not self._secure:
            return http.client.HTTPConnection(self._host, self._port, timeout=_TIMEOUT_S)
        import ssl  # noqa: PLC0415 - most calls stay on this machine and need none of it

        context = ssl.create_default_context()
        if self._trusted_cert is not None:
            context.load_verify_locations(self._trusted_cert)
        return http.client.HTTPSConnection(self._host, self._port, timeout=_TIMEOUT_S, context=context)

    def _unreachable(self, reason: str) -> Unreachable:
        return Unreachable(
            f"cannot reach {self.url}: {reason}\nStart a server with `{program()} serve`, or set DRAGOMAN_URL."
        )


def _key_header(key: str | None) -> dict[str, str]:
    return {"idempotency-key": key} if key is not None else {}


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        answer: object = json.loads(text)
    except ValueError:
        return None
    return cast("dict[str, Any]", answer) if isinstance(answer, dict) else None


def _problem(answer: dict[str, Any]) -> dict[str, Any]:
    """What went wrong, also where A2A says it in its own shape."""
    error = answer.get("error")
    if not isinstance(error, dict):
        return answer
    told = cast("dict[str, Any]", error)
    reasons = [str(one["reason"]) for one in told.get("details", []) if "reason" in one]
    return {"detail": told.get("message"), "status": told.get("code"), "code": reasons[0] if reasons else "FAILED"}


def _as_query(values: dict[str, Any]) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values.items()}
