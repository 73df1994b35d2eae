"""One command's conversation with the server: which one, as whom, in which tenant."""

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import rich_click as click

from dragoman.addresses import bindings
from dragoman.doors.cli.client import Client
from dragoman.doors.cli.endings import NotAllowed, Unreachable, WrongUsage
from dragoman.doors.cli.program import program
from dragoman.infra.config import ConfigError, Settings, load_settings
from dragoman.operations import Binding

if TYPE_CHECKING:
    from dragoman.infra.auth.tokens import Grant

DEFAULT_TENANT = "demo"
# Whoever can read the installation's keys may do everything with it.
_KEYBOARD_USER, _KEYBOARD_ROLE, KEYBOARD_TTL_S = "admin", "super_admin", 300


@dataclass(frozen=True, slots=True)
class Asked:
    """The options that every command understands, and the key of a write."""

    as_json: bool = False
    tenant: str | None = None
    idempotency_key: str | None = None


def key_option() -> click.Parameter:
    """Return `--idempotency-key`, for every command that writes."""
    return click.RichOption(
        ["--idempotency-key", "idempotency_key"],
        type=_KeyText(),
        default=None,
        metavar="KEY",
        help="Do this once: repeated with the same key, the command gets the first result.",
    )


class _KeyText(click.ParamType[str, str]):
    """Text that a header can carry; the server checks its length."""

    name = "KEY"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse what a header cannot carry."""
        if not (value.isascii() and value.isprintable()):
            self.fail("must be printable ASCII characters", param, ctx)
        return value


def common_options() -> list[click.Parameter]:
    """`--json` and `--tenant`, on every command that talks to the server."""
    return [
        click.RichOption(
            ["--tenant", "as_tenant"], default=None, help=f"Act in this tenant [{DEFAULT_TENANT}].", metavar="SLUG"
        ),
        click.RichOption(["--json", "as_json"], is_flag=True, help="Print JSON for programs."),
    ]


def settings_or_end() -> Settings:
    """The settings in force.

    Raises:
        WrongUsage: they are wrong.
    """
    try:
        return load_settings()
    except ConfigError as error:
        raise WrongUsage(f"the configuration is wrong:\n{error}") from None


def call(operation: str, given: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
    """Return the success envelope of an operation, by name.

    Raises:
        Ending: the server refused, does not answer, or there is no credential to ask with.
    """
    return connect(asked).call(binding_of(operation), given, idempotency_key=asked.idempotency_key)


def binding_of(operation: str) -> Binding:
    """Where an operation answers."""
    return next(binding for binding in bindings() if binding.operation.name == operation)


def connect(asked: Asked) -> Client:
    """A client for this command.

    Raises:
        Ending: there is no credential to ask with, or it is another tenant's.
    """
    settings = settings_or_end()
    return Client(server_url(settings), credential(settings, asked), trusted_cert=settings.tls_cert)


def credential(settings: Settings, asked: Asked) -> str:
    """The token to ask with: the given one, else one for the person at the keyboard, good for some minutes.

    Raises:
        Ending: there is none to be had, or the given one is another tenant's.
    """
    token = os.environ.get("DRAGOMAN_TOKEN")
    if not token:
        return _keyboard_token(settings, asked.tenant or DEFAULT_TENANT)
    if asked.tenant and (given := _tenant_of(token, settings.claims_tenant)) != asked.tenant:
        whose = f"is for the tenant {given}" if given else "does not say its tenant"
        raise WrongUsage(
            f"--tenant {asked.tenant} was asked for, but DRAGOMAN_TOKEN {whose}\n"
            "The token decides: leave --tenant out, or unset DRAGOMAN_TOKEN."
        )
    return token


def server_url(settings: Settings) -> str:
    """`DRAGOMAN_URL`, else where the server of this data directory says it is, else where it would be."""
    if given := os.environ.get("DRAGOMAN_URL"):
        return given.rstrip("/")
    try:
        return str(json.loads((settings.data_dir / "server.json").read_text())["url"])
    except (OSError, ValueError, KeyError):
        scheme = "https" if settings.tls_cert else "http"
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        return f"{scheme}://{host}:{settings.port}"


def mint_token(settings: Settings, grant: "Grant", *, ttl_s: int | None = None) -> str:
    """A token of the embedded issuer, made with the installation's key.

    Raises:
        NotAllowed: an external issuer is configured.
        Ending: the key is not there, or not readable for this user.
    """
    # Cryptography takes a while to import, and a command with a token in its environment needs none.
    from dragoman.infra.auth.keyring import Keyring, KeyringError  # noqa: PLC0415
    from dragoman.infra.auth.tokens import Issuer  # noqa: PLC0415

    if settings.external_issuer:
        raise NotAllowed(
            f"tokens come from {settings.issuer or settings.jwks_url}: get one there and put it into DRAGOMAN_TOKEN"
        )
    try:
        if not (settings.secrets_path / "issuer.pem").exists():
            raise Unreachable(f"no keys in {settings.secrets_path} yet\nStart a server with `{program()} serve`.")
        keyring = Keyring.open(settings.secrets_path)
    except (KeyringError, PermissionError) as error:
        raise NotAllowed(f"{error}\nPut a token into DRAGOMAN_TOKEN, or run this as the server's user.") from None
    return Issuer(keyring.issuer, audience=settings.audience, ttl_s=settings.token_ttl_s).mint(grant, ttl_s=ttl_s)


def _keyboard_token(settings: Settings, tenant: str) -> str:
    from dragoman.infra.auth.tokens import Grant  # noqa: PLC0415

    return mint_token(settings, Grant(tenant, _KEYBOARD_USER, [_KEYBOARD_ROLE]), ttl_s=KEYBOARD_TTL_S)


def _tenant_of(token: str, claim: str) -> str | None:
    """The tenant that a token names; None for one that is not readable, such as an API key."""
    try:
        payload = token.split(".")[1]
        claims: object = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (IndexError, ValueError):
        return None
    tenant = cast("dict[str, object]", claims).get(claim) if isinstance(claims, dict) else None
    return tenant if isinstance(tenant, str) else None
