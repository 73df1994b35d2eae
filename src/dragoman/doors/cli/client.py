"""The command line as a client of a running server, over its REST addresses."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from dragoman.addresses import Binding
from dragoman.infra.auth.keyring import Keyring, KeyringError
from dragoman.infra.auth.tokens import Grant, Issuer
from dragoman.infra.config import Settings


class Unreachable(Exception):
    """No server answers at this address."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"cannot reach {url}: {reason}\nStart it with `dragoman serve`, or set DRAGOMAN_URL.")


class Refused(Exception):
    """The server answered with a problem."""

    def __init__(self, problem: dict[str, Any]) -> None:
        super().__init__(str(problem.get("detail", "the server refused")))
        self.problem = problem

    @property
    def not_allowed(self) -> bool:
        """Whether it is about who asks, not about what is asked."""
        return self.problem.get("status") in (401, 403)


@dataclass(frozen=True, slots=True)
class Keyboard:
    """Who sits there: the tenant and role that a token is made for when none is given."""

    tenant: str = "demo"
    role: str = "super_admin"
    user: str = "admin"


def server_url(settings: Settings) -> str:
    """`DRAGOMAN_URL`, else where the server of this data directory says it is, else where it would be."""
    if given := os.environ.get("DRAGOMAN_URL"):
        return given.rstrip("/")
    note = settings.data_dir / "server.json"
    try:
        return str(json.loads(note.read_text())["url"])
    except (OSError, ValueError, KeyError):
        scheme = "https" if settings.tls_cert else "http"
        return f"{scheme}://{settings.host}:{settings.port}"


def mint_token(settings: Settings, grant: Grant, *, ttl_s: int | None = None) -> str:
    """A token of the embedded issuer, made with the installation's key.

    Raises:
        KeyringError: the key is not readable here, or an external issuer is configured.
    """
    if settings.external_issuer:
        raise KeyringError(
            "an external issuer is configured (DRAGOMAN_JWKS_URL or DRAGOMAN_ISSUER): get a token from it"
        )
    if not (settings.secrets_path / "issuer.pem").exists():
        raise KeyringError(
            f"there is no key in {settings.secrets_path} yet: start the server once with `dragoman serve`"
        )
    keyring = Keyring.open(settings.secrets_path)
    return Issuer(keyring.issuer, audience=settings.audience, ttl_s=settings.token_ttl_s).mint(grant, ttl_s=ttl_s)


class Client:
    """Calls operations on the server and gives their data back."""

    def __init__(self, settings: Settings, keyboard: Keyboard) -> None:
        self._url = server_url(settings)
        token = os.environ.get("DRAGOMAN_TOKEN") or mint_token(
            settings, Grant(keyboard.tenant, keyboard.user, [keyboard.role]), ttl_s=300
        )
        verify: Any = str(settings.tls_cert) if settings.tls_cert and Path(settings.tls_cert).exists() else True
        self._http = httpx.Client(
            base_url=self._url, headers={"authorization": f"Bearer {token}"}, timeout=120, verify=verify
        )

    def call(self, binding: Binding, given: dict[str, Any]) -> dict[str, Any]:
        """The success envelope of an operation.

        Raises:
            Refused: the server answered with a problem.
            Unreachable: it did not answer.
        """
        values = dict(given)
        path = binding.path
        for name in binding.parameters:
            path = path.replace(f"{{{name}}}", quote(str(values.pop(name)), safe=""))
        headers: dict[str, str] = {}
        if (version := values.pop("expected_version", None)) is not None:
            headers["if-match"] = f'"v{version}"'
        try:
            if binding.method == "GET":
                response = self._http.get(path, params=_as_query(values), headers=headers)
            else:
                response = self._http.request(binding.method, path, json=values, headers=headers)
        except httpx.HTTPError as error:
            raise Unreachable(self._url, str(error) or type(error).__name__) from error
        return _read(self._url, response)


def _as_query(values: dict[str, Any]) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values.items()}


def _read(url: str, response: httpx.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError:
        raise Unreachable(url, f"it answered {response.status_code}, but not as Dragoman does") from None
    if response.is_success:
        return body
    raise Refused(body)
