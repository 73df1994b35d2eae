"""The processes: one that owns the embedded servers and the socket, and as many that serve as were asked for."""

import asyncio
import gc
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import structlog
import uvicorn
import uvloop
from pydantic import SecretStr
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from dragoman import __version__
from dragoman.app.composition import Addresses, Application, build
from dragoman.app.listening import address_of, home_of, listen, port_of, reserve_grpc, share_port, url_of
from dragoman.infra.auth.keyring import Keyring, KeyringError
from dragoman.infra.config import ConfigError, Settings
from dragoman.infra.db import APP_ROLE, LOGIN_ROLE, Database, find_excess, find_foreign_key, make_login, migrate
from dragoman.infra.edge.grpc_on_demand import GrpcOnDemand
from dragoman.infra.edge.protocol import KEEP_ALIVE_S, HttpProtocol
from dragoman.infra.edge.tls import TlsProtocol, tls_context
from dragoman.infra.embedded import EmbeddedServices, tie_to_parent, wait_for_exit
from dragoman.infra.ids import new_id
from dragoman.infra.private_files import write_privately
from dragoman.infra.telemetry import configure_logs, mark_process_dead, prepare_multiprocess
from dragoman.services.tasks.engine.steps import LaneName
from dragoman.services.tenancy.store import TenancyStore

if TYPE_CHECKING:
    from dragoman.infra.edge.grpc import GrpcServer

_LOG = structlog.get_logger(__name__)
# Not one of the settings, which are checked for typos.
_FD_VARIABLE = "_DRAGOMAN_LISTENER"
_RESTART_S = 1.0
# After failures in a row to start a process at all: the machine is out of memory, of processes, of descriptors.
_LONGEST_RESTART_S = 30.0
# How long a hung database, or a thread that waits for a silent remote, may hold up the end of a process after draining.
_STOP_S = 5.0
DEMO = "demo"


Announce = Callable[[Settings, str], None]


def serve(settings: Settings, announce: Announce) -> None:
    """Serve until a signal ends it; `announce` is told the address once it can be used."""
    write_privately()
    _check_tls(settings)
    _run_process(_serve(settings, announce))


def serve_child(settings: Settings) -> None:
    """Serve on the socket that the parent opened; the parent has seen to everything else."""
    write_privately()
    configure_logs(format=settings.log_format, level=settings.log_level, security_log=settings.security_log_path)
    listener = socket.socket(fileno=int(os.environ[_FD_VARIABLE]))
    addresses = Addresses(_given(settings.database_url), _given(settings.redis_url))
    grpc_port = settings.grpc_port or None
    application = build(settings, addresses, Keyring.open(settings.secrets_path), grpc_port=grpc_port)
    _run_process(run(settings, application, listener, grpc_port))


def bring_up_to_date(settings: Settings) -> int:
    """Apply what the database lacks, as its owner; say how many migrations that was."""
    configure_logs(format=settings.log_format, level=settings.log_level, security_log=None)
    url = settings.database_admin_url or settings.database_url
    if url is None:
        raise ConfigError(
            "set DRAGOMAN_DATABASE_ADMIN_URL to the database as its owner; the embedded PostgreSQL needs no command: "
            "`dragoman serve` migrates it"
        )
    return asyncio.run(migrate(str(url)))


def work(settings: Settings, announce: Announce) -> None:
    """Do background work until a signal ends it, on servers that others have set up."""
    write_privately()
    configure_logs(format=settings.log_format, level=settings.log_level, security_log=settings.security_log_path)
    if settings.database_url is None or settings.redis_url is None:
        raise ConfigError(
            "a worker needs DRAGOMAN_DATABASE_URL and DRAGOMAN_REDIS_URL; the embedded servers belong to "
            "`dragoman serve`, which does the background work itself"
        )
    addresses = Addresses(_given(settings.database_url), _given(settings.redis_url))
    _run_process(_work(settings, addresses, announce))


def _run_process(work: Coroutine[Any, Any, None]) -> None:
    """Run the work of a process to its end; then wait for its threads, but not for ever."""

    async def to_the_end() -> None:
        await work
        # Everything is closed and written. Python would still join every thread, and a thread cannot be cancelled.
        leave = threading.Timer(_STOP_S, os._exit, (0,))
        leave.daemon = True
        leave.start()

    uvloop.run(to_the_end())


async def _work(settings: Settings, addresses: Addresses, announce: Announce) -> None:
    keyring = Keyring.open(settings.secrets_path)
    await prepare(settings, addresses, keyring)
    application = build(settings, addresses, keyring)
    # The agent may be served by another process alone.
    application.tasks.core.engine.stop_claiming(LaneName.TURN)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    await application.start()
    try:
        announce(settings, "")
        await stopping.wait()
    finally:
        await _stop(application)


async def _serve(settings: Settings, announce: Announce) -> None:
    configure_logs(format=settings.log_format, level=settings.log_level, security_log=None)
    embedded = EmbeddedServices(
        settings.data_dir, postgres=settings.database_url is None, valkey=settings.redis_url is None
    )
    listener = listen(settings)
    grpc = reserve_grpc(settings)
    await embedded.start()
    try:
        addresses = Addresses(
            database_url=_given(settings.database_url) or embedded.login_url(LOGIN_ROLE),
            redis_url=_given(settings.redis_url) or embedded.redis_url,
            admin_url=None if settings.database_url else embedded.database_url,
        )
        configure_logs(format=settings.log_format, level=settings.log_level, security_log=settings.security_log_path)
        keyring = Keyring.open(settings.secrets_path)
        await prepare(settings, addresses, keyring)
        url = url_of(settings, listener)
        grpc_port = port_of(grpc) if grpc is not None else None
        with Notice(settings.data_dir, url):
            if settings.workers == 1:
                application = build(settings, addresses, keyring, grpc_port=grpc_port)
                await run(settings, application, listener, grpc_port, on_ready=lambda: announce(settings, url))
            else:
                await _Crew(settings, addresses, listener, grpc_port).run(lambda: announce(settings, url))
    finally:
        listener.close()
        if grpc is not None:
            grpc.close()
        await embedded.stop()


async def prepare(settings: Settings, addresses: Addresses, keyring: Keyring) -> None:
    """Bring the database to what this release needs; safe when several servers start on it at once."""
    await migrate(_given(settings.database_admin_url) or addresses.admin_url or addresses.database_url)
    if addresses.admin_url is not None:
        await make_login(addresses.admin_url)
    db = Database(addresses.database_url, role=APP_ROLE, size=2)
    await db.start()
    try:
        foreign = await find_foreign_key(db, keyring.fingerprints())
        if foreign is not None:
            raise KeyringError(
                f"this database was set up with another {foreign} key than the one in {settings.secrets_path}; "
                "point DRAGOMAN_SECRETS_DIR at the keys that it was set up with"
            )
        if excess := await find_excess(db):
            _LOG.warning("database.login_may_too_much", excess=excess, see="docs/operations.md")
        await TenancyStore(db).seed_tenant(new_id(), DEMO, "Demo")
    finally:
        await db.stop()


class _Server(uvicorn.Server):
    """uvicorn, which leaves the application's own start and stop to us; gRPC starts and drains along with it."""

    def __init__(
        self,
        config: uvicorn.Config,
        grpc: GrpcOnDemand | None,
        *,
        on_ready: Callable[[], None],
        on_leaving: Callable[[], None],
        until: asyncio.Event | None,
    ) -> None:
        super().__init__(config)
        self._until = until
        self._grpc = grpc
        self._on_ready = on_ready
        self._on_leaving = on_leaving

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stop on a signal, and that is all: uvicorn would raise it again afterwards, past our own clean-up."""
        if self._until is not None:
            yield
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield

    async def on_tick(self, counter: int) -> bool:
        """End when told to, where signals belong to others."""
        if self._until is not None and self._until.is_set():
            self.should_exit = True
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._grpc is not None:
            self._grpc.start()
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_leaving()
        drained = [super().shutdown(sockets)]
        if self._grpc is not None:
            drained.append(self._grpc.stop(self.config.timeout_graceful_shutdown or 0))
        await asyncio.gather(*drained)


async def run(
    settings: Settings,
    application: Application,
    listener: socket.socket,
    grpc_port: int | None,
    on_ready: Callable[[], None] = lambda: None,
    until: asyncio.Event | None = None,
) -> None:
    """Start the application and serve it on `listener` until a signal ends it.

    With `until` it ends when that is set instead, and leaves signals and the garbage collector of the process alone.
    """
    grpc = _open_grpc(settings, application, listener, grpc_port) if grpc_port else None
    await application.start()
    if until is None:
        _spare_the_collector()
    config = uvicorn.Config(
        application.asgi,
        http=TlsProtocol if settings.tls_cert else HttpProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=settings.behind_tls_proxy,
        forwarded_allow_ips=settings.trusted_proxies,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(1, int(settings.drain_s)),
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        ssl_context_factory=tls_context(settings.tls_client_ca) if settings.tls_cert else None,
    )
    try:
        server = _Server(config, grpc, on_ready=on_ready, on_leaving=application.leave, until=until)
        await server.serve(sockets=[listener])
    finally:
        await _stop(application)


def _open_grpc(settings: Settings, application: Application, listener: socket.socket, port: int) -> GrpcOnDemand:
    def make() -> "GrpcServer":
        from dragoman.infra.edge.grpc import GrpcRules, GrpcServer  # noqa: PLC0415 - an extra, and 11 MB

        rules = GrpcRules(
            address=address_of(settings.host, port),
            home=(home_of(settings), port_of(listener)),
            max_message_bytes=settings.max_body_bytes,
            certificate=settings.tls_cert,
            key=settings.tls_key,
        )
        app: Any = application.grpc
        if settings.behind_tls_proxy:
            app = ProxyHeadersMiddleware(app, settings.trusted_proxies)
        return GrpcServer(app, rules)

    return GrpcOnDemand(share_port(settings.host, port), make)


def _spare_the_collector() -> None:
    """Look for cycles among what requests leave behind, less often, and never again through the program itself."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


async def _stop(application: Application) -> None:
    try:
        async with asyncio.timeout(_STOP_S):
            await application.stop()
    except TimeoutError:
        _LOG.warning("server.stopped_unfinished", after_s=_STOP_S)


class _Crew:
    """Several server processes on one socket; one that dies is replaced."""

    def __init__(
        self, settings: Settings, addresses: Addresses, listener: socket.socket, grpc_port: int | None
    ) -> None:
        self._settings = settings
        self._grpc_port = grpc_port
        self._addresses = addresses
        self._listener = listener
        self._stopping = asyncio.Event()

    async def run(self, announce: Callable[[], None]) -> None:
        """Until SIGTERM or SIGINT; then the children drain and end before this returns."""
        prepare_multiprocess(self._settings.data_dir / "metrics")
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        members = [asyncio.create_task(self._keep_one()) for _ in range(self._settings.workers)]
        announce()
        await self._stopping.wait()
        await asyncio.gather(*members)

    async def _keep_one(self) -> None:
        """Keep one process running until the server stops, whatever goes wrong with starting it or its end."""
        failures = 0
        while not self._stopping.is_set():
            try:
                pid, status = await self._run_one()
                failures = 0
                if not self._stopping.is_set():
                    _LOG.error("server process ended; starting another", pid=pid, status=status)
                mark_process_dead(pid)
            except Exception:  # noqa: BLE001 - the last net: without it the server would go on with a process fewer
                failures += 1
                _LOG.exception("server.process_failed", failures=failures)
            with suppress(TimeoutError):
                backoff_s = min(_RESTART_S * 2 ** min(failures, 5), _LONGEST_RESTART_S)
                await asyncio.wait_for(self._stopping.wait(), backoff_s)

    async def _run_one(self) -> tuple[int, int]:
        """Run a process to its end; return its id and its exit status."""
        child = subprocess.Popen(  # noqa: ASYNC220 - starting it takes a millisecond
            [sys.executable, "-m", "dragoman", "serve-child"],
            env=self._environment(),
            pass_fds=[self._listener.fileno()],
            preexec_fn=tie_to_parent(signal.SIGTERM),  # noqa: PLW1509 - two system calls, no locks
        )
        ended = asyncio.create_task(wait_for_exit(child))
        told = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([ended, told], return_when=asyncio.FIRST_COMPLETED)
            if self._stopping.is_set():
                child.terminate()
                await asyncio.wait([ended], timeout=self._settings.drain_s + 2 * _STOP_S)
                if not ended.done():
                    child.kill()
            status = await ended
        finally:
            told.cancel()
            # Nothing when it has ended: another is started only in place of one that is gone.
            child.kill()
        return child.pid, status

    def _environment(self) -> dict[str, str]:
        return os.environ | {
            "DRAGOMAN_DATABASE_URL": self._addresses.database_url,
            "DRAGOMAN_REDIS_URL": self._addresses.redis_url,
            "DRAGOMAN_DATA_DIR": str(self._settings.data_dir),
            "DRAGOMAN_WORKERS": str(self._settings.workers),
            "DRAGOMAN_HOST": self._settings.host,
            "DRAGOMAN_GRPC_PORT": str(self._grpc_port or ""),
            _FD_VARIABLE: str(self._listener.fileno()),
        }


class Notice:
    """A note beside the data that says where the server is, for the command line."""

    def __init__(self, data_dir: Path, url: str) -> None:
        self._path = data_dir / "server.json"
        self._url = url

    def __enter__(self) -> None:
        note = {"url": self._url, "pid": os.getpid(), "version": __version__}
        self._path.write_bytes(orjson.dumps(note) + b"\n")

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)


def _check_tls(settings: Settings) -> None:
    """Before anything is started: a server that comes up and cannot shake hands looks healthy from inside."""
    if settings.tls_cert is None:
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # A key with a password must not make a server wait at a prompt.
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password="")
    except OSError as error:
        raise ConfigError(f"DRAGOMAN_TLS_CERT and DRAGOMAN_TLS_KEY cannot be used: {error}") from None
    if settings.tls_client_ca is None:
        return
    try:
        context.load_verify_locations(cafile=settings.tls_client_ca)
    except OSError as error:
        raise ConfigError(f"DRAGOMAN_TLS_CLIENT_CA cannot be used: {error}") from None


def _given(secret: SecretStr | None) -> str:
    return secret.get_secret_value() if secret is not None else ""
