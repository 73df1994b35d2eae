"""A whole server inside a test's process, on a real PostgreSQL and a real Valkey.

    with running({"DRAGOMAN_AGENT": "my_agent:agent"}) as server, server.client(server.token()) as client:
        assert client.get("/api/me").status_code == 200

The two are started once for all processes of a test run. Each server has a database of its own, copied from a migrated
one, and ends within a second. docs/testing.md says what it shares with its process, and what it therefore cannot show.
"""
# pyright: reportUnknownVariableType=false
# The driver has no types.

import asyncio
import atexit
import hashlib
import json
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Generator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import asyncpg
import httpx
import uvloop

from dragoman.app.composition import Addresses, build
from dragoman.app.listening import listen, port_of, reserve_grpc, url_of
from dragoman.app.serving import Notice, prepare, run
from dragoman.infra.auth.keyring import Keyring
from dragoman.infra.auth.tokens import Grant, Issuer
from dragoman.infra.config import Settings, load_settings, read_environment
from dragoman.infra.db import LOGIN_ROLE
from dragoman.infra.embedded.shared import SharedServices
from dragoman.infra.telemetry import LogOutput, route_logs
from dragoman.infra.telemetry.files import AppendFile

# A test of limits sets its own; other tests must not reach them.
DEFAULTS: Final = {
    "DRAGOMAN_PORT": "0",
    "DRAGOMAN_LIMITS__IP_PER_MIN": "1000000",
    "DRAGOMAN_LIMITS__USER_PER_MIN": "1000000",
    "DRAGOMAN_LIMITS__TENANT_PER_MIN": "1000000",
    "DRAGOMAN_LIMITS__A2A_TENANT_PER_MIN": "1000000",
    # A machine that is busy with tests may keep Valkey waiting for longer than a server of production would.
    "DRAGOMAN_LIMITS__VALKEY_TIMEOUT_S": "30",
}
_START_S: Final = 60
_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_DATABASE: Final = re.compile(r"/\w+\?")
_NUMBERS = count(1)


class RunningServer:
    """A server that answers on `url`, with its settings, its logs, and clients for it."""

    def __init__(self, settings: Settings, addresses: Addresses) -> None:
        self.settings = settings
        self.data_dir = settings.data_dir
        self.database_url = addresses.admin_url or addresses.database_url
        self.redis_url = addresses.redis_url
        self.log = settings.data_dir.parent / "server.log"
        self.url = ""
        self._addresses = addresses
        self._ready: Future[str] = Future()
        self._stop: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._thread = threading.Thread(target=self._main, name="dragoman", daemon=True)

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self._thread.start()
        self.url = self._ready.result(_START_S)

    def stop(self) -> None:
        """Stop the server, as SIGTERM stops a process; return when everything that it started has ended."""
        if self._stop is not None:
            loop, event = self._stop
            loop.call_soon_threadsafe(event.set)
        self._thread.join()

    def client(self, token: str | None = None, **options: Any) -> httpx.Client:
        """Return a client with a bearer token, or without credentials."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30, **options)

    def token(
        self,
        *,
        role: str = "org_admin",
        tenant: str = "demo",
        user: str = "admin",
        scopes: list[str] | None = None,
        ttl_s: int | None = None,
    ) -> str:
        """Return a token as `dragoman token` makes it."""
        issuer = Issuer(Keyring.open(self.settings.secrets_path).issuer, audience=self.settings.audience, ttl_s=3600)
        return issuer.mint(Grant(tenant, user, [role], scopes), ttl_s=ttl_s)

    def admin(self, tenant: str = "demo") -> httpx.Client:
        """Return a client with the role `super_admin`."""
        return self.client(self.token(role="super_admin", tenant=tenant))

    def log_lines(self) -> list[dict[str, Any]]:
        """Return everything that the server has logged so far."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def security_events(self) -> list[dict[str, Any]]:
        """Return everything in the security log of the server."""
        return [json.loads(line) for line in self.settings.security_log_path.read_text().splitlines()]

    def _main(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)

    async def _serve(self) -> None:
        with ExitStack() as stack:
            stream = stack.enter_context(self.log.open("a"))
            output = LogOutput(
                stream,
                text=False,
                level=_LEVELS[self.settings.log_level],
                security=AppendFile(self.settings.security_log_path),
            )
            stack.callback(output.close)
            route_logs(output)
            listener = stack.enter_context(listen(self.settings))
            grpc = reserve_grpc(self.settings)
            if grpc is not None:
                stack.enter_context(grpc)
            grpc_port = port_of(grpc) if grpc is not None else None
            keyring = Keyring.open(self.settings.secrets_path)
            await prepare(self.settings, self._addresses, keyring)
            application = build(self.settings, self._addresses, keyring, grpc_port=grpc_port)
            until = asyncio.Event()
            self._stop = (asyncio.get_running_loop(), until)
            url = url_of(self.settings, listener)
            stack.enter_context(Notice(self.data_dir, url))
            await run(
                self.settings,
                application,
                listener,
                grpc_port,
                on_ready=lambda: self._ready.set_result(url),
                until=until,
            )


@contextmanager
def running(environment: Mapping[str, str] | None = None) -> Generator[RunningServer]:
    """Run a server with these settings, named as in the environment; rate limits are high unless they are set.

    With DRAGOMAN_DATABASE_URL the server uses that database as it is, else a new one. The same holds for Valkey.

    Raises:
        ConfigError: a setting is wrong.
        EmbeddedError: PostgreSQL or Valkey cannot run here.
    """
    with ExitStack() as stack:
        variables = DEFAULTS | dict(environment or {})
        if "DRAGOMAN_DATA_DIR" not in variables:
            variables["DRAGOMAN_DATA_DIR"] = str(stack.enter_context(_home()) / "d")
        if "DRAGOMAN_DATABASE_URL" not in variables:
            variables |= stack.enter_context(own_database())
        if "DRAGOMAN_REDIS_URL" not in variables:
            variables["DRAGOMAN_REDIS_URL"] = own_redis_url()
        settings = load_settings(variables)
        settings.data_dir.mkdir(mode=0o711, parents=True, exist_ok=True)
        server = RunningServer(settings, _addresses(variables))
        try:
            server.start()
            yield server
        finally:
            server.stop()


def _addresses(variables: Mapping[str, str]) -> Addresses:
    """Return where the server goes: to a database of the test run as in production, with a login that owns nothing."""
    url, redis_url = variables["DRAGOMAN_DATABASE_URL"], variables["DRAGOMAN_REDIS_URL"]
    user, place = "://postgres@", url.partition("?")[2]
    if user in url and place == shared_services().database_url.partition("?")[2]:
        return Addresses(url.replace(user, f"://{LOGIN_ROLE}@"), redis_url, admin_url=url)
    return Addresses(url, redis_url)


@contextmanager
def _home() -> Generator[Path]:
    """Make a directory that the user of the embedded servers can enter; remove it afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="dgt-", dir="/tmp"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def own_database() -> Generator[dict[str, str]]:
    """Create a migrated database; yield the settings for it and an unused Valkey database, and drop it afterwards."""
    addresses = make_database()
    try:
        yield addresses
    finally:
        _execute(
            _DATABASE.sub("/postgres?", addresses["DRAGOMAN_DATABASE_URL"]),
            f"DROP DATABASE {_name(addresses)} WITH (FORCE)",
        )


def make_database() -> dict[str, str]:
    """Create a migrated database; return the settings for it and an unused Valkey database.

    It lasts until the test run ends, so a server may be stopped and started again on it.
    """
    services = shared_services()
    addresses = {
        "DRAGOMAN_DATABASE_URL": _DATABASE.sub(f"/test_{uuid4().hex[:16]}?", services.database_url),
        "DRAGOMAN_REDIS_URL": own_redis_url(),
    }
    cluster = _DATABASE.sub("/postgres?", services.database_url)
    template = _name({"DRAGOMAN_DATABASE_URL": services.database_url})
    _execute(cluster, f"CREATE DATABASE {_name(addresses)} TEMPLATE {template}")
    return addresses


def _name(addresses: Mapping[str, str]) -> str:
    match = _DATABASE.search(addresses["DRAGOMAN_DATABASE_URL"])
    return match[0][1:-1] if match else ""


@cache
def shared_services() -> SharedServices:
    """Return PostgreSQL and Valkey, shared with the other workers of the same run of pytest-xdist."""
    run_id = read_environment().get("PYTEST_XDIST_TESTRUNUID") or f"{os.getpid()}-{uuid4().hex}"
    digest = hashlib.sha256(run_id.encode()).hexdigest()[:12]
    membership = SharedServices.join(Path(f"/tmp/dgt-shared-{digest}"))  # noqa: S108 - as above
    atexit.register(membership.leave)
    return membership.services


def own_redis_url() -> str:
    """Return the address of a Valkey database that no other server of this run uses."""
    # The workers of pytest-xdist are called gw0, gw1, ...
    worker = int(read_environment().get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return f"{shared_services().redis_url}?db={worker * 512 + next(_NUMBERS) % 512}"


def _execute(url: str, statement: str) -> None:
    async def execute() -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    # In a thread of its own: the caller may be within a loop.
    failed: list[BaseException] = []

    def work() -> None:
        try:
            asyncio.run(execute())
        except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
