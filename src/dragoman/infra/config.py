"""Settings: one frozen tree, read once from the environment and a TOML file, then passed by constructor."""

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

PREFIX = "DRAGOMAN_"
# Read by the command line before there are settings, or by a client that has none.
CLIENT_VARIABLES = frozenset({"DRAGOMAN_CONFIG", "DRAGOMAN_URL", "DRAGOMAN_TOKEN"})


class ConfigError(Exception):
    """The configuration is wrong; the message names the variable and what was expected."""


def default_data_dir() -> Path:
    """Where the embedded servers, the keys and the logs live unless told otherwise."""
    if os.geteuid() == 0:
        return Path("/var/lib/dragoman")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "dragoman"


def _split(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


class Section(BaseModel):
    """A group of settings that is read as `DRAGOMAN_<GROUP>__<NAME>`."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Limits(Section):
    """Requests per minute; every limit of a request is checked at once."""

    ip_per_min: int = Field(100, ge=1, description="Unauthenticated requests from one address.")
    user_per_min: int = Field(300, ge=1, description="One principal, over all its credentials.")
    tenant_per_min: int = Field(1000, ge=1, description="All principals of a tenant on the standard plan.")
    a2a_tenant_per_min: int = Field(100, ge=1, description="A2A work of a tenant on the standard plan.")
    agent_per_min: int = Field(10, ge=1, description="One agent certificate on the agent gateway.")
    skill_per_min: dict[str, int] = Field(
        default_factory=dict[str, int], description='Calls of one skill by one tenant, as JSON: {"memory": 600}.'
    )
    poll_factor: int = Field(10, ge=1, description="How many times more often a caller may ask than work.")
    free_factor: float = Field(0.5, gt=0, description="Share of the tenant limits that the free plan has.")
    enterprise_factor: float = Field(
        10, gt=0, description="Multiple of the tenant limits that the enterprise plan has."
    )


class Threads(Section):
    """How long conversations live and how large they grow."""

    ttl_s: int = Field(86_400, ge=1, description="A thread idle for longer is expired.")
    context_ttl_s: int = Field(
        3_600, ge=1, description="Conversation context is emptied this long after its last write."
    )
    max_bytes: int = Field(1_048_576, ge=1024, description="The most that a thread may hold.")
    cleanup_s: int = Field(300, ge=1, description="How often expired state is removed.")


class Tasks(Section):
    """How delegated work is retried."""

    max_attempts: int = Field(3, ge=1, description="Picks of a task before it is a dead letter.")


class Settings(BaseSettings):
    """Everything that can be set. `dragoman config check` prints the values in force."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", frozen=True, extra="forbid", env_ignore_empty=True
    )

    host: str = Field("127.0.0.1", description="Address to listen on; anything but loopback needs TLS.")
    port: int = Field(8080, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    workers: int = Field(1, ge=1, le=64, description="Server processes.")
    data_dir: Path = Field(default_factory=default_data_dir, description="Embedded servers, keys, logs.")
    secrets_dir: Path | None = Field(None, description="Keys; by default `secrets` in the data directory.")
    database_url: SecretStr | None = Field(None, description="PostgreSQL 15 to 18; embedded when unset.")
    database_admin_url: SecretStr | None = Field(None, description="The same database as its owner, for migrations.")
    database_pool: int = Field(20, ge=2, le=500, description="Connections of one process to PostgreSQL.")
    redis_url: SecretStr | None = Field(None, description="Valkey or Redis; embedded when unset.")
    jwks_url: str | None = Field(None, description="Keys of an external token issuer; switches the embedded one off.")
    issuer: str | None = Field(
        None, description="The `iss` that tokens must have; with it alone, OIDC discovery finds the keys."
    )
    audience: str = Field("dragoman", description="The `aud` that tokens must have.")
    claims_tenant: str = Field("tenant", description="The claim that names the tenant (its slug or id).")
    claims_roles: str = Field("roles", description="The claim that lists the roles.")
    token_ttl_s: int = Field(86_400, ge=60, description="How long a token of the embedded issuer lives.")
    policy_dir: Path | None = Field(None, description="Cedar policies that replace the built-in ones.")
    tls_cert: Path | None = Field(None, description="Server certificate chain, PEM.")
    tls_key: Path | None = Field(None, description="Its private key, PEM.")
    tls_client_ca: Path | None = Field(None, description="CA of client certificates for the agent gateway, PEM.")
    behind_tls_proxy: bool = Field(default=False, description="A proxy in front terminates TLS; plain HTTP is meant.")
    trusted_proxies: str = Field("127.0.0.1,::1", description="Whose X-Forwarded-For is believed behind a proxy.")
    max_body_bytes: int = Field(10_485_760, ge=1024, description="Largest request body.")
    request_timeout_s: float = Field(60.0, gt=0, description="A request that takes longer is stopped with 504.")
    drain_s: float = Field(10.0, ge=0, description="How long a stopping server waits for requests in flight.")
    cors_origins: Annotated[list[str], NoDecode, BeforeValidator(_split)] = Field(
        default_factory=list[str], description="Browser origins to allow, with commas between them."
    )
    log_format: Literal["auto", "json", "text"] = Field(
        "auto", description="`auto` is text on a terminal, JSON elsewhere."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severity that is logged."
    )
    security_log: Path | None = Field(
        None, description="Security events; by default `security.jsonl` in the data directory."
    )
    otlp_endpoint: str | None = Field(None, description="OpenTelemetry collector (OTLP/HTTP); no traces when unset.")
    llm: str | None = Field(None, description="Model as provider:model; none when unset.")
    llm_base_url: str | None = Field(None, description="Address of an OpenAI-compatible model server.")
    grpc_port: int = Field(0, ge=0, le=65535, description="gRPC port; 0 picks a free one.")
    limits: Limits = Limits.model_construct()
    threads: Threads = Threads.model_construct()
    tasks: Tasks = Tasks.model_construct()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the signature is pydantic's
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment wins over the file, which comes as init values."""
        return env_settings, init_settings

    @model_validator(mode="after")
    def _check_combinations(self) -> "Settings":
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("DRAGOMAN_TLS_CERT and DRAGOMAN_TLS_KEY go together")
        if self.tls_client_ca and not self.tls_cert:
            raise ValueError("DRAGOMAN_TLS_CLIENT_CA needs DRAGOMAN_TLS_CERT and DRAGOMAN_TLS_KEY")
        for origin in self.cors_origins:
            if origin == "*" or not origin.startswith(("http://", "https://")):
                raise ValueError(f"DRAGOMAN_CORS_ORIGINS: {origin!r} is not an origin such as https://app.example")
        if not (self.is_loopback or self.tls_cert or self.behind_tls_proxy):
            raise ValueError(
                f"DRAGOMAN_HOST={self.host} would serve plain HTTP to others: give DRAGOMAN_TLS_CERT and "
                "DRAGOMAN_TLS_KEY, or set DRAGOMAN_BEHIND_TLS_PROXY=true when a proxy in front terminates TLS"
            )
        return self

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return self.host in ("127.0.0.1", "::1", "localhost") or self.host.startswith("127.")

    @property
    def external_issuer(self) -> bool:
        """Whether tokens come from somebody else's issuer."""
        return bool(self.jwks_url or self.issuer)

    @property
    def secrets_path(self) -> Path:
        """Where the keys are."""
        return self.secrets_dir or self.data_dir / "secrets"

    @property
    def security_log_path(self) -> Path:
        """Where security events are appended."""
        return self.security_log or self.data_dir / "security.jsonl"


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the environment and the file that `DRAGOMAN_CONFIG` names.

    Raises:
        ConfigError: a value is wrong, or the file cannot be read; every complaint is in the message.
    """
    environ = os.environ if environ is None else environ
    values = _read_file(environ.get("DRAGOMAN_CONFIG"))
    try:
        return Settings(**values)
    except ValidationError as error:
        raise ConfigError("\n".join(_complaint(item) for item in error.errors())) from None
    except ValueError as error:  # pydantic-settings: a value that is not the JSON it should be
        raise ConfigError(str(error)) from None


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Variables that look like ours and are none, each with the nearest name: a typo is otherwise silent."""
    known = {name for name, _ in describe_settings()} | CLIENT_VARIABLES
    unknown: list[str] = []
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            unknown.append(f"{name} is not a setting" + (f"; did you mean {near[0]}?" if near else ""))
    return unknown


def describe_settings() -> list[tuple[str, str]]:
    """Every variable with what it is for, in the order of the tree; the docs are checked against it."""
    rows: list[tuple[str, str]] = []
    for name, field in Settings.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            rows.extend(
                (f"{PREFIX}{name}__{inner}".upper(), inner_field.description or "")
                for inner, inner_field in field.annotation.model_fields.items()
            )
        else:
            rows.append((f"{PREFIX}{name}".upper(), field.description or ""))
    return rows


def _read_file(path: str | None) -> dict[str, Any]:
    if not path:
        return {}
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"DRAGOMAN_CONFIG: cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"DRAGOMAN_CONFIG: {path} is not TOML: {error}") from None


def _complaint(item: Any) -> str:
    location = [str(part) for part in item["loc"]]
    message = str(item["msg"]).removeprefix("Value error, ")
    if not location:
        return message
    name = PREFIX + "__".join(location).upper()
    given = item.get("input")
    return f"{name}: {message}" + (f" (got {given!r})" if isinstance(given, str | int | float) else "")
