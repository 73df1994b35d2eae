"""Settings: one frozen tree, read once from the environment and a TOML file, then passed by constructor."""

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, create_model, model_validator
from pydantic.fields import FieldInfo

from dragoman.infra.extensions import ExtensionError, installed_extensions
from dragoman.infra.values import (
    CountByName,
    Directory,
    HomePath,
    HttpUrl,
    Origins,
    OutboundHosts,
    PostgresUrl,
    ReadableFile,
    RedisUrl,
    Words,
)

PREFIX = "DRAGOMAN_"
# Read by the command line before there are settings, or by a client that has none.
CLIENT_VARIABLES = {
    "DRAGOMAN_CONFIG": "A TOML file with settings; the environment wins over it.",
    "DRAGOMAN_URL": "The server that the command line talks to; the one of this machine when unset.",
    "DRAGOMAN_TOKEN": "The bearer token or API key that the command line presents; made on the spot when unset.",
}


class ConfigError(Exception):
    """The configuration is wrong; the message names the variable and what was expected."""


def default_data_dir() -> Path:
    """Where the embedded servers, the keys and the logs live unless told otherwise."""
    if os.geteuid() == 0:
        return Path("/var/lib/dragoman")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "dragoman"


class Section(BaseModel):
    """A group of settings that is read as `DRAGOMAN_<GROUP>__<NAME>`."""

    model_config = ConfigDict(frozen=True, extra="forbid")


SectionT = TypeVar("SectionT", bound=Section)


class Limits(Section):
    """Requests per minute, every limit of a request checked at once; and streams that are open in one process."""

    ip_per_min: int = Field(100, ge=1, description="Unauthenticated requests from one address, or one /64 of IPv6.")
    user_per_min: int = Field(300, ge=1, description="One principal, over all its credentials.")
    tenant_per_min: int = Field(1000, ge=1, description="All principals of a tenant on the standard plan.")
    a2a_tenant_per_min: int = Field(100, ge=1, description="A2A work of a tenant on the standard plan.")
    agent_per_min: int = Field(
        10, ge=1, description="Queries of one registered agent, by its certificate, at the agent gateway."
    )
    skill_per_min: CountByName = Field(
        default_factory=dict[str, int], description='Calls of one skill by one tenant, as JSON: {"memory": 600}.'
    )
    poll_factor: int = Field(10, ge=1, description="How many times more often a caller may ask than work.")
    free_factor: float = Field(0.5, gt=0, description="Share of the tenant limits that the free plan has.")
    enterprise_factor: float = Field(
        10, gt=0, description="Multiple of the tenant limits that the enterprise plan has."
    )
    valkey_timeout_s: float = Field(
        0.05,
        gt=0,
        le=60,
        description="A Valkey that takes longer to answer counts as away: memory counts meanwhile.",
    )
    streams_per_caller: int = Field(100, ge=1, description="Streams that one principal has open in one process.")
    streams_per_tenant: int = Field(1_000, ge=1, description="Streams that a tenant has open in one process.")
    streams_per_process: int = Field(
        10_000, ge=1, description="Open streams of one process; never more than half of the files that it may open."
    )
    stream_check_s: float = Field(
        30,
        gt=0,
        le=30,
        description="How often at least the caller of an open stream is checked again: "
        "its credential must be neither revoked nor expired.",
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
    """How work is retried, how long it may take, and how long it is remembered."""

    max_attempts: int = Field(3, ge=1, description="Picks of a task before it is a dead letter.")
    timeout_s: float = Field(
        3_600, ge=0, description="A turn of a task that takes longer fails with TIMEOUT; 0 is no limit."
    )
    max_artifact_bytes: int = Field(
        10_485_760, ge=1024, description="The most that a task may make: its artifacts, and what it says with them."
    )
    max_state_bytes: int = Field(1_048_576, ge=1024, description="The most that a skill may keep for one task.")
    workers: Words = Field(
        default_factory=list[str],
        description="Workers of your own, each as module:name, with commas between them; see docs/delegation.md.",
    )
    lease_s: float = Field(
        3.5,
        ge=2,
        le=600,
        description="A process that has not been heard of for so long is taken for dead, and its tasks are taken over.",
    )
    retry_base_s: float = Field(
        1, gt=0, description="Rest after the first failed attempt at a delegated task; each later one is twice as long."
    )
    retry_max_s: float = Field(60, gt=0, description="The longest rest between two attempts at a delegated task.")
    take_over: bool = Field(
        default=True,
        description="Perform delegated actions; `serve --no-worker` turns it off. Conversations are always served.",
    )
    retention_s: int = Field(2_592_000, ge=1, description="A task that ended longer ago is removed, with its history.")


class Outbound(Section):
    """Where this server may send to on behalf of others."""

    allow: OutboundHosts = Field(
        default_factory=list[str],
        description="Hosts and networks to reach beyond the public ones, by http too; with commas between them.",
    )


class Push(Section):
    """How notifications to webhooks are tried."""

    timeout_s: float = Field(10.0, gt=0, le=60, description="How long a webhook may take to answer.")
    max_attempts: int = Field(10, ge=1, le=30, description="Attempts in a row before a webhook is given up.")


class Webhooks(Section):
    """How webhooks are taken in and processed."""

    tolerance_s: int = Field(
        300, ge=1, le=3_600, description="How far the signed time of a webhook may be from that of this server."
    )
    max_bytes: int = Field(1_048_576, ge=1_024, description="The largest webhook of a registered source.")
    source_per_min: int = Field(30_000, ge=1, description="Verified webhooks of one source.")
    retries: int = Field(3, ge=0, le=30, description="Attempts after the first before an event is a dead letter.")
    retry_base_s: float = Field(
        1, gt=0, description="Wait before the first attempt after a failure; each later one is twice as long."
    )
    retry_max_s: float = Field(300, gt=0, description="The longest wait between two attempts at an event.")
    keep_s: int = Field(
        2_592_000,
        ge=172_800,
        description="How long an event is kept that has ended; as long a repetition of it is known as one.",
    )
    gcp_jwks_url: HttpUrl = Field(
        "https://www.googleapis.com/oauth2/v3/certs", description="Keys that Google signs the tokens of Pub/Sub with."
    )
    sns_hosts: Words = Field(
        default_factory=list[str],
        description="Hosts with their ports that stand in for Amazon SNS, such as those of LocalStack; "
        "DRAGOMAN_OUTBOUND__ALLOW has to name them too.",
    )


class Subscriptions(Section):
    """How events are delivered to subscribed webhooks, and when one is given up."""

    timeout_s: float = Field(10.0, gt=0, le=60, description="How long a receiver may take to answer.")
    max_attempts: int = Field(12, ge=1, le=30, description="Attempts at one event; as many as take about a day.")
    retry_base_s: float = Field(
        5.0, gt=0, description="Rest after the first attempt; each later one is thrice as long."
    )
    retry_max_s: float = Field(21_600, gt=0, description="The longest rest between two attempts.")
    disable_after_s: float = Field(
        259_200, ge=1, description="A subscription whose receiver has taken nothing for so long is disabled."
    )
    keep_s: int = Field(2_592_000, ge=60, description="A delivery of an event that is older is removed from the log.")


class Knowledge(Section):
    """Where the repositories of tenants are."""

    dir: HomePath | None = Field(
        None,
        description="Cache of the tenants' git repositories, which are in PostgreSQL; by default `knowledge` in the "
        "data directory.",
    )
    allow_file_remotes: bool = Field(
        default=False, description="Let tenants sync from paths of this machine, with the eyes of the server."
    )
    max_fetch_bytes: int = Field(536_870_912, ge=1_048_576, description="The most that one sync may fetch.")


class Memory(Section):
    """How memories age, and whether they go up by themselves."""

    decay_per_day: float = Field(
        0.01, ge=0, lt=1, description="How fast age takes from a score; at most a tenth of it."
    )
    auto_promote: bool = Field(
        default=False, description="Promote memories that have earned it by their use, not only when somebody asks."
    )


class Session(Section):
    """What an agent is told when a conversation begins."""

    max_characters: int = Field(
        12_000,
        ge=1_000,
        le=200_000,
        description="Characters of memories and constraints together, about four to a token.",
    )


class Gateway(Section):
    """How agents of others are known that come with a client certificate."""

    cert_header: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9-]{1,100}$",
        description="Header in which a trusted proxy hands on the client certificate, percent-encoded PEM or "
        "X-Forwarded-Client-Cert; needs DRAGOMAN_BEHIND_TLS_PROXY and DRAGOMAN_TLS_CLIENT_CA.",
    )
    crl: ReadableFile | None = Field(
        None, description="Revocation list of the authority of client certificates, PEM; read again when it changes."
    )


class Contracts(Section):
    """What is kept of contract work."""

    max_document_bytes: int = Field(26_214_400, ge=1024, le=268_435_456, description="Largest document that is kept.")


class Settings(BaseModel):
    """Everything that can be set. `dragoman config check` prints the values in force."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field("127.0.0.1", description="Address to listen on; anything but loopback needs TLS.")
    port: int = Field(8080, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    workers: int = Field(1, ge=1, le=64, description="Server processes.")
    data_dir: HomePath = Field(default_factory=default_data_dir, description="Embedded servers, keys, logs.")
    secrets_dir: HomePath | None = Field(None, description="Keys; by default `secrets` in the data directory.")
    database_url: PostgresUrl | None = Field(None, description="PostgreSQL 15 to 18; embedded when unset.")
    database_admin_url: PostgresUrl | None = Field(None, description="The same database as its owner, for migrations.")
    database_pool: int = Field(20, ge=2, le=500, description="Connections of one process to PostgreSQL.")
    redis_url: RedisUrl | None = Field(None, description="Valkey or Redis; embedded when unset.")
    jwks_url: HttpUrl | None = Field(
        None, description="Keys of an external token issuer; switches the embedded one off."
    )
    issuer: str | None = Field(
        None, description="The `iss` that tokens must have; with it alone, OIDC discovery finds the keys."
    )
    audience: str = Field("dragoman", description="The `aud` that tokens must have.")
    claims_tenant: str = Field("tenant", description="The claim that names the tenant (its slug or id).")
    claims_roles: str = Field("roles", description="The claim that lists the roles.")
    claims_kind: str = Field(
        "type", description="The claim of an external issuer that tells people, agents and services apart."
    )
    claims_people: Words = Field(
        default_factory=lambda: ["user"], description="Its values that mean a person; `*` is any value."
    )
    token_ttl_s: int = Field(86_400, ge=60, description="How long a token of the embedded issuer lives.")
    token_max_age_s: int = Field(
        2_592_000,
        ge=60,
        description="No token is accepted when it is older, whatever its `exp`; and revocations end then.",
    )
    idempotency_s: int = Field(
        2_592_000, ge=60, description="How long an idempotency key of a write, and what it was answered, is kept."
    )
    policy_dir: Directory | None = Field(None, description="Cedar policies that replace the built-in ones.")
    tls_cert: ReadableFile | None = Field(None, description="Server certificate chain, PEM.")
    tls_key: ReadableFile | None = Field(None, description="Its private key, PEM.")
    tls_client_ca: ReadableFile | None = Field(
        None, description="CA of client certificates for the agent gateway, PEM."
    )
    behind_tls_proxy: bool = Field(default=False, description="A proxy in front terminates TLS; plain HTTP is meant.")
    trusted_proxies: str = Field("127.0.0.1,::1", description="Whose X-Forwarded-For is believed behind a proxy.")
    max_body_bytes: int = Field(10_485_760, ge=1024, description="Largest request body.")
    request_timeout_s: float = Field(60.0, gt=0, description="A request that takes longer is stopped with 504.")
    drain_s: float = Field(10.0, ge=0, description="How long a stopping server waits for requests in flight.")
    cors_origins: Origins = Field(
        default_factory=list[str], description="Browser origins to allow, with commas between them."
    )
    log_format: Literal["auto", "json", "text"] = Field(
        "auto", description="`auto` is text on a terminal, JSON elsewhere."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severity that is logged."
    )
    security_log: HomePath | None = Field(
        None, description="Security events; by default `security.jsonl` in the data directory."
    )
    otlp_endpoint: HttpUrl | None = Field(
        None, description="OpenTelemetry collector (OTLP/HTTP); no traces when unset."
    )
    metrics_token: SecretStr | None = Field(
        None, description="Bearer token that `/metrics` asks for; anybody may read it when unset."
    )
    llm: str | None = Field(None, pattern=r"^[\w-]+:\S+$", description="Model as provider:model; none when unset.")
    llm_router: str | None = Field(
        None, pattern=r"^[\w-]+:\S+$", description="Model that finds the skill for free text; by default the same."
    )
    llm_base_url: HttpUrl | None = Field(None, description="Address of an OpenAI-compatible model server.")
    llm_api_key: SecretStr | None = Field(
        None, description="Key of the model server; by default in the variable its provider uses."
    )
    embeddings: str = Field(
        "local",
        pattern=r"^(off|local|openai:\S+)$",
        description="How meaning is found: `local` (the model of the set-up), `openai:MODEL` (an endpoint) or `off`.",
    )
    embeddings_base_url: HttpUrl = Field(
        "https://api.openai.com/v1", description="Address of an OpenAI-compatible embeddings endpoint."
    )
    embeddings_api_key: SecretStr | None = Field(None, description="The key that the endpoint wants.")
    agent: str | None = Field(None, description="An agent written with kit, as module:name; served beside the tools.")
    grpc_port: int = Field(0, ge=0, le=65535, description="gRPC port; 0 picks a free one.")
    limits: Limits = Limits.model_construct()
    threads: Threads = Threads.model_construct()
    memory: Memory = Memory.model_construct()
    session: Session = Session.model_construct()
    tasks: Tasks = Tasks.model_construct()
    outbound: Outbound = Outbound.model_construct()
    push: Push = Push.model_construct()
    subscriptions: Subscriptions = Subscriptions.model_construct()
    knowledge: Knowledge = Knowledge.model_construct()
    contracts: Contracts = Contracts.model_construct()
    gateway: Gateway = Gateway.model_construct()
    webhooks: Webhooks = Webhooks.model_construct()

    @model_validator(mode="after")
    def _check_combinations(self) -> "Settings":
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("DRAGOMAN_TLS_CERT and DRAGOMAN_TLS_KEY go together")
        if self.tls_client_ca and not (self.tls_cert or self.gateway.cert_header):
            raise ValueError(
                "DRAGOMAN_TLS_CLIENT_CA needs DRAGOMAN_TLS_CERT and DRAGOMAN_TLS_KEY, or behind a proxy "
                "DRAGOMAN_GATEWAY__CERT_HEADER"
            )
        if self.gateway.cert_header and not (self.behind_tls_proxy and self.tls_client_ca):
            raise ValueError(
                "DRAGOMAN_GATEWAY__CERT_HEADER needs DRAGOMAN_BEHIND_TLS_PROXY=true and DRAGOMAN_TLS_CLIENT_CA"
            )
        if self.gateway.crl and not self.tls_client_ca:
            raise ValueError("DRAGOMAN_GATEWAY__CRL needs DRAGOMAN_TLS_CLIENT_CA")
        if self.issuer and not self.jwks_url and not self.issuer.startswith(("http://", "https://")):
            raise ValueError("DRAGOMAN_ISSUER must be a URL, for its keys to be found, unless DRAGOMAN_JWKS_URL is set")
        if self.jwks_url and not self.issuer:
            raise ValueError("DRAGOMAN_JWKS_URL needs DRAGOMAN_ISSUER, the `iss` of its tokens: keys may serve several")
        if self.token_ttl_s > self.token_max_age_s:
            raise ValueError("DRAGOMAN_TOKEN_TTL_S must not exceed DRAGOMAN_TOKEN_MAX_AGE_S: such tokens end before")
        if not (self.is_loopback or self.tls_cert or self.behind_tls_proxy):
            raise ValueError(
                f"DRAGOMAN_HOST={self.host} would serve plain HTTP to others: give DRAGOMAN_TLS_CERT and "
                "DRAGOMAN_TLS_KEY, or set DRAGOMAN_BEHIND_TLS_PROXY=true when a proxy in front terminates TLS"
            )
        return self

    def section(self, kind: type[SectionT]) -> SectionT:
        """Return the settings of a plugin, by their type."""
        return next(cast("SectionT", value) for _, value in self if type(value) is kind)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return self.host in ("127.0.0.1", "::1", "localhost") or self.host.startswith("127.")

    @property
    def external_issuer(self) -> bool:
        """Whether tokens come from somebody else's issuer."""
        return bool(self.jwks_url or self.issuer)

    @property
    def longest_wait_s(self) -> float:
        """Who waits for a task gets it as it is before the edge would cut the request off, and that takes a moment."""
        return min(self.request_timeout_s * 0.9, max(self.request_timeout_s - 1, self.request_timeout_s / 2))

    @property
    def secrets_path(self) -> Path:
        """Where the keys are."""
        return self.secrets_dir or self.data_dir / "secrets"

    @property
    def knowledge_dir(self) -> Path:
        """Where the repositories of tenants are."""
        return self.knowledge.dir or self.data_dir / "knowledge"

    @property
    def security_log_path(self) -> Path:
        """Where security events are appended."""
        return self.security_log or self.data_dir / "security.jsonl"


@cache
def _model() -> type[Settings]:
    """Return the tree with the sections of the installed plugins."""
    sections: dict[str, Any] = {
        one.name: (section, section.model_construct())
        for one in installed_extensions().values()
        if (section := one.load_settings()) is not None
    }
    if taken := sorted(sections.keys() & Settings.model_fields.keys()):
        raise ExtensionError(f"a plugin cannot be named {taken[0]!r}: that is a setting of the server")
    return create_model("Settings", __base__=Settings, **sections)


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the environment and the file that `DRAGOMAN_CONFIG` names; the environment wins, value by value.

    Raises:
        ConfigError: a value is wrong, or the file cannot be read; every complaint is in the message.
    """
    environ = os.environ if environ is None else environ
    try:
        _model()
    except ExtensionError as error:
        raise ConfigError(str(error)) from error
    path = environ.get("DRAGOMAN_CONFIG")
    values = _read_file(path) if path else {}
    for variable, place, _ in _walk():
        # An empty variable is an unset one: that is how a shell or a compose file leaves it out.
        if given := environ.get(variable):
            _put(values, place, given)
    try:
        return _model().model_validate(values)
    except ValidationError as error:
        raise ConfigError("\n".join(_complaint(item, environ, path) for item in error.errors())) from None


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Variables that look like ours and are none, each with the nearest name: a typo is otherwise silent."""
    known = {variable for variable, _, _ in _walk()} | set(CLIENT_VARIABLES)
    unknown = [name for name in sorted(environ) if name.startswith(PREFIX) and name not in known]
    return [f"{name} is not a setting{_nearest(name, known)}" for name in unknown]


def describe_settings() -> list[tuple[str, str, str]]:
    """Every variable with its default and what it is for, in the order of the tree; the docs are checked against it."""
    return [(variable, _default(field), field.description or "") for variable, _, field in _walk()]


def _walk() -> Iterator[tuple[str, tuple[str, ...], FieldInfo]]:
    """Every setting: its variable, its place in the tree, what it is."""
    for name, field in _model().model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            for inner, inner_field in field.annotation.model_fields.items():
                yield f"{PREFIX}{name}__{inner}".upper(), (name, inner), inner_field
        else:
            yield f"{PREFIX}{name}".upper(), (name,), field


def _default(field: FieldInfo) -> str:
    if field.default_factory is default_data_dir:
        return "`/var/lib/dragoman` for root, else `~/.local/share/dragoman`"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None or value in ([], {}):
        return "unset"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def read_environment() -> Mapping[str, str]:
    """The environment of this process, for keys under the names that their providers chose."""
    return dict(os.environ)


def _put(values: dict[str, Any], place: tuple[str, ...], given: str) -> None:
    if len(place) == 1:
        values[place[0]] = given
        return
    section = values.setdefault(place[0], {})
    # A file that has something other than a table there is told so when the tree is checked.
    if isinstance(section, dict):
        section[place[1]] = given


def _read_file(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"DRAGOMAN_CONFIG: cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"DRAGOMAN_CONFIG: {path} is not TOML: {error}") from None


def _complaint(item: Any, environ: Mapping[str, str], path: str | None) -> str:
    location = [str(part) for part in item["loc"]]
    message = str(item["msg"]).removeprefix("Value error, ")
    if not location:
        return message
    settings = {place: variable for variable, place, _ in _walk()}
    variable = settings.get(tuple(location[:2])) or settings.get(tuple(location[:1]), "")
    in_file = f"{'.'.join(location)} in {path}"
    if item["type"] == "extra_forbidden":
        return f"{in_file} is not a setting{_nearest('.'.join(location), {'.'.join(place) for place in settings})}"
    name = variable if environ.get(variable) else f"{in_file} ({variable})" if variable else in_file
    given = item.get("input")
    # Not what was given for a secret: a message ends up in logs.
    shown = isinstance(given, str | int | float) and not variable.endswith(("_URL", "_KEY"))
    return f"{name}: {message}" + (f" (got {given!r})" if shown else "")


def _nearest(name: str, known: set[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""
