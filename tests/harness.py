"""Servers for tests, from the cheapest: `InProcess`, `Process`, `Server`.

A test starts a process where processes are its subject: signals, crashes, several of them, what they use, how they end.
It gives the process a PostgreSQL and a Valkey of its own (`Server`) where these are its subject too.
"""

import io
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tty
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, ClassVar, Final, Self
from unittest.mock import patch

import httpx

from dragoman.__main__ import main
from dragoman.infra.auth.keyring import Keyring
from dragoman.infra.auth.tokens import Grant, Issuer
from dragoman.testing import make_database, own_database, running
from tests.clusters import data_dir, lay_cluster
from tests.patience import PATIENCE_S

DRAGOMAN = Path(sys.executable).with_name("dragoman")
# Tests of limits set their own; all others must not run into one.
GENEROUS = {"DRAGOMAN_LIMITS__IP_PER_MIN": "1000000", "DRAGOMAN_LIMITS__USER_PER_MIN": "1000000",
            "DRAGOMAN_LIMITS__TENANT_PER_MIN": "1000000",
            # A busy machine may keep Valkey from answering in time: what counts must not begin anew in memory.
            "DRAGOMAN_LIMITS__VALKEY_TIMEOUT_S": "30"}  # fmt: skip


# One look at a server that may not be there yet: it is asked again.
_PROBE_S: Final = 10.0
# The environment and the output belong to one command at a time.
_TYPING = threading.Lock()


class Server:
    """`dragoman serve` as a user runs it. Use as a context manager, or start and stop it by hand."""

    program: ClassVar[Path] = DRAGOMAN

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        *arguments: str,
        at: Path | None = None,
        keep: bool = False,
        terminal: bool = False,
    ) -> None:
        self.data_dir = at or data_dir()
        self.log = self.data_dir.parent / "server.log"
        self.screen = self.data_dir.parent / "screen.txt"
        self._terminal = terminal
        self._arguments = arguments
        self._keep = keep or at is not None
        self._environment = {"DRAGOMAN_PORT": "0", "DRAGOMAN_LOG_FORMAT": "json", **GENEROUS, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    @property
    def environment(self) -> dict[str, str]:
        """For a command that should talk to this server."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_")}
        # Compiled once for all servers of a run, wherever the machine says that nothing should be written.
        clean |= {
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / "dgt-pycache"),
        }
        return clean | self._environment | {"DRAGOMAN_DATA_DIR": str(self.data_dir)}

    @property
    def database_url(self) -> str:
        """Of its PostgreSQL, as the superuser where it is the embedded one."""
        embedded = f"postgresql://postgres@/dragoman?host={self.data_dir / 'postgres'}"
        return self._environment.get("DRAGOMAN_DATABASE_URL", embedded)

    @property
    def redis_url(self) -> str:
        """Of its Valkey."""
        return self._environment.get("DRAGOMAN_REDIS_URL", f"unix://{self.data_dir / 'valkey' / 'valkey.sock'}")

    @property
    def secrets_dir(self) -> Path:
        """Where its keys are."""
        return Path(self._environment.get("DRAGOMAN_SECRETS_DIR", self.data_dir / "secrets"))

    @property
    def pid(self) -> int:
        """Of the process that was started."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> Self:
        """Start it and wait until it answers."""
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        if not self.data_dir.exists() and "DRAGOMAN_DATABASE_URL" not in self._environment:
            lay_cluster(self.data_dir)
        with self.log.open("ab") as log, ExitStack() as stack:
            out = stack.enter_context(open_terminal(self.screen)) if self._terminal else log
            self._process = subprocess.Popen(
                [str(self.program), "serve", *self._arguments], env=self.environment, stdout=out, stderr=log
            )
        note = self.data_dir / "server.json"
        wait_for(lambda: self._process is not None and (note_of(note, self._process.pid) or self._ended()), "the note")
        self.url = str(json.loads(note.read_text())["url"])
        wait_for(self._answers, "an answer")
        return self

    def stop(self, with_signal: signal.Signals = signal.SIGTERM) -> int:
        """End it and return its exit status."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(with_signal)
        status = self._process.wait(PATIENCE_S)
        self._process = None
        return status

    def client(self, token: str | None = None, **options: Any) -> httpx.Client:
        """A client with a bearer token, or without credentials."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE_S, **options)

    def admin(self, tenant: str = "demo") -> httpx.Client:
        """A client that may do everything."""
        return self.client(self.token(role="super_admin", tenant=tenant))

    def token(
        self,
        *,
        role: str = "org_admin",
        tenant: str = "demo",
        user: str = "admin",
        scopes: list[str] | None = None,
        ttl_s: int | None = None,
    ) -> str:
        """A token as `dragoman token` makes it."""
        return self.issuer().mint(Grant(tenant, user, [role], scopes), ttl_s=ttl_s)

    def issuer(self) -> Issuer:
        """The server's own issuer."""
        return Issuer(Keyring.open(self.secrets_dir).issuer, audience="dragoman", ttl_s=3600)

    def cli(self, *arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command against this server, in this process: it is quicker than starting one, and ends the same."""
        return type_command(arguments, self._client_environment(environment))

    def shell(self, *arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command against this server in a process of its own."""
        return subprocess.run(
            [str(DRAGOMAN), *arguments],
            env=self._client_environment(environment),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def _client_environment(self, environment: Mapping[str, str] | None) -> dict[str, str]:
        return self.environment | {"DRAGOMAN_URL": self.url, "COLUMNS": "160"} | dict(environment or {})

    def log_lines(self) -> list[dict[str, Any]]:
        """Everything that it has logged so far, as far as it is JSON."""
        return [json.loads(line) for line in self.log.read_text().split("\n") if line.startswith("{")]

    def security_events(self, *, of: str | None = None) -> list[dict[str, Any]]:
        """Everything in its security stream, or what the request of this id, ours or its client's, has left there."""
        events = [json.loads(line) for line in (self.data_dir / "security.jsonl").read_text().splitlines()]
        if of is None:
            return events
        return [event for event in events if of in (event.get("request_id"), event.get("correlation_id"))]

    def _abandon(self) -> None:
        self.stop(signal.SIGKILL)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/ready", timeout=_PROBE_S, verify=False).status_code == 200
        except httpx.HTTPError:
            return self._ended()

    def _ended(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise AssertionError(f"the server ended: {self.log.read_text()[-3000:]}")
        return False

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self._abandon()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if not self._keep:
            shutil.rmtree(self.data_dir.parent, ignore_errors=True)


class Process(Server):
    """A process on the PostgreSQL and the Valkey of the test run; one that starts later `at` its place has its data."""

    def start(self) -> Self:
        """Start it and wait until it answers."""
        note = self.data_dir.parent / "database.json"
        if "DRAGOMAN_DATABASE_URL" not in self._environment:
            if not note.exists():
                note.write_text(json.dumps(make_database()))
            self._environment |= json.loads(note.read_text())
        self.data_dir.mkdir(mode=0o711, exist_ok=True)
        return super().start()


class InProcess(Server):
    """The same server in a thread of this process, on a database of its own in the PostgreSQL of the test run."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(environment)
        self._open = ExitStack()

    def start(self) -> Self:
        """Start it and wait until it answers."""
        with ExitStack() as stack:
            if "DRAGOMAN_DATABASE_URL" not in self._environment:
                self._environment |= stack.enter_context(own_database())
            # An agent or a worker of a test is found, and finds its variables, as in a process of its own.
            for place in self.environment.get("PYTHONPATH", "").split(os.pathsep):
                if place and place not in sys.path:
                    sys.path.append(place)
            for name, value in self._environment.items():
                if not name.startswith("DRAGOMAN_") and name != "PYTHONPATH":
                    stack.callback(_set_variable, name, os.environ.get(name))
                    _set_variable(name, value)
            ours = {name: value for name, value in self.environment.items() if name.startswith("DRAGOMAN_")}
            self.url = stack.enter_context(running(ours)).url
            self._open = stack.pop_all()
        return self

    @property
    def pid(self) -> int:
        """A test that asks for it is about processes."""
        raise AssertionError("an in-process server has no process of its own; use Process or Server")

    def stop(self, with_signal: signal.Signals = signal.SIGTERM) -> int:
        """End it as SIGTERM would."""
        assert with_signal is signal.SIGTERM, "an in-process server cannot be killed; use Process or Server"
        self._open.close()
        return 0

    def _abandon(self) -> None:
        self._open.close()


def type_command(arguments: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the command line in this process, with this environment and nothing else in it; one at a time."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with (
        _TYPING,
        patch.dict(os.environ, environment, clear=True),
        patch.object(sys, "argv", [str(DRAGOMAN), *arguments]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
            status: object = 0
        except SystemExit as ended:
            status = ended.code
    assert isinstance(status, int), status
    said = (stream.buffer.getvalue().decode() for stream in (out, err))
    return subprocess.CompletedProcess([str(DRAGOMAN), *arguments], status, *said)


def _set_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def open_terminal(screen: Path) -> IO[bytes]:
    """A terminal for a process; all that it shows is copied to the file `screen`."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)  # lines end as they are written

    def copy() -> None:
        # Reading fails when the last process has closed the terminal.
        with os.fdopen(ours, "rb", buffering=0) as shown, screen.open("wb", buffering=0) as file, suppress(OSError):
            while piece := shown.read(65_536):
                file.write(piece)

    screen.touch()
    threading.Thread(target=copy, name="screen", daemon=True).start()
    return os.fdopen(theirs, "wb", buffering=0)


def note_of(note: Path, pid: int) -> bool:
    """Whether the note is that of this process, and not of one before it."""
    try:
        return bool(json.loads(note.read_text())["pid"] == pid)
    except (OSError, ValueError, KeyError):
        return False


def wait_for(condition: Callable[[], Any], what: str, *, patience_s: float = PATIENCE_S) -> Any:
    """Ask until it is so; tests of other processes have nothing better to wait on."""
    deadline = time.monotonic() + patience_s
    while True:
        if result := condition():
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {patience_s:g} s in vain for {what}")
        time.sleep(0.02)
