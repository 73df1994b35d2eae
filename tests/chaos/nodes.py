"""One process of an installation: a server or a worker, with a network of its own to PostgreSQL."""

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final

import httpx

from dragoman.infra.auth.keyring import Keyring
from dragoman.infra.auth.tokens import Grant, Issuer
from tests.chaos.machine import free_port, spawn
from tests.chaos.partition import Link, Proxy
from tests.harness import DRAGOMAN, wait_for
from tests.patience import PATIENCE_S

# One look at a server that may not be there yet: it is asked again.
_PROBE_S: Final = 10.0


class Node:
    """`dragoman serve` or `dragoman worker`; it keeps its port and its data directory over restarts."""

    def __init__(
        self,
        name: str,
        place: Path,
        environment: Mapping[str, str],
        *arguments: str,
        proxy: Proxy,
        secrets: Path,
        program: Path = DRAGOMAN,
    ) -> None:
        self.name = name
        self.proxy = proxy
        self.data_dir = place / name
        self.log = place / f"{name}.log"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.serves = arguments[0] == "serve"
        self.started: list[int] = []
        # A chaos run starts it again when it has ended by itself, unless it is being restarted already.
        self.supervised = True
        self._launching = Lock()
        self._skew: dict[str, str] = {}
        self._said = 0
        self._command = [str(program), *arguments]
        self._secrets = secrets
        self.environment = {
            **environment,
            "DRAGOMAN_PORT": str(self.port),
            "DRAGOMAN_DATA_DIR": str(self.data_dir),
            "DRAGOMAN_SECRETS_DIR": str(secrets),
            "CHAOS_NODE": name,
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the process that runs now."""
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Check that it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def launch(self) -> None:
        """Start it and do not wait."""
        self._said = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = spawn(self._command, self.environment | self._skew, log)
        self.started.append(self._process.pid)

    def launch_if_ended(self) -> None:
        """Start it and do not wait, unless it runs."""
        with self._launching:
            if not self.alive:
                self.launch()

    def skew(self, environment: dict[str, str]) -> None:
        """Give its next process another clock."""
        self._skew = environment

    def start(self) -> None:
        """Start it and wait until it is ready."""
        self.launch()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait until it answers, or says that it runs."""
        wait_for(self.answers if self.serves else self._runs, f"{self.name} (see {self.log})")

    def answers(self) -> bool:
        """Check that it is ready for requests."""
        self._refuse_if_ended()
        try:
            return httpx.get(f"{self.url}/ready", timeout=_PROBE_S).status_code == 200
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        """End it without any notice."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_S)

    def stop(self) -> int:
        """End it politely and return its exit status."""
        assert self._process is not None
        if self.alive:
            self.resume()
            self._process.send_signal(signal.SIGTERM)
        return self._process.wait(PATIENCE_S)

    def kill_child(self) -> None:
        """End one of the processes that serve for it without any notice, or itself where it has none."""
        children = self._family()[1:]
        with suppress(ProcessLookupError):
            os.kill((children or [self.pid])[-1], signal.SIGKILL)
        if not children and self._process is not None:
            self._process.wait(PATIENCE_S)

    def pause(self) -> frozenset[int]:
        """Stop it where it is, with the processes that serve for it; gives who was stopped."""
        family = self._family()
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        return frozenset(family)

    def resume(self) -> None:
        """Let it go on."""
        if self.alive:
            for pid in self._family():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def link(self, link: Link) -> None:
        """Change its network to PostgreSQL."""
        self.proxy.set(link)

    def token(self, *, role: str = "org_admin", tenant: str = "demo", user: str = "admin") -> str:
        """A token as `dragoman token` makes it; good at every process of the installation."""
        issuer = Issuer(Keyring.open(self._secrets).issuer, audience="dragoman", ttl_s=7200)
        return issuer.mint(Grant(tenant, user, [role], None), ttl_s=7200)

    def client(self, token: str | None = None, *, timeout_s: float = PATIENCE_S) -> httpx.Client:
        """A client of this server."""
        headers = {"authorization": f"Bearer {token or self.token()}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=timeout_s)

    def cli(self, *arguments: str, token: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command against this server."""
        asked = {"DRAGOMAN_URL": self.url, "DRAGOMAN_TOKEN": token or self.token(), "COLUMNS": "160"}
        return subprocess.run(
            [str(DRAGOMAN), *arguments],
            env=self.environment | asked,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def log_lines(self) -> list[dict[str, Any]]:
        """Everything that it has logged so far, as far as it is JSON."""
        return [json.loads(line) for line in self.log.read_text().split("\n") if line.startswith("{")]

    def _family(self) -> list[int]:
        """Its process, and those that serve for it."""
        with suppress(FileNotFoundError):
            children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
            return [self.pid, *map(int, children)]
        return [self.pid]

    def _runs(self) -> bool:
        self._refuse_if_ended()
        with self.log.open("rb") as log:
            log.seek(self._said)
            return b"worker is running" in log.read()

    def _refuse_if_ended(self) -> None:
        if not self.alive:
            raise AssertionError(f"{self.name} ended: {self.log.read_text()[-3000:]}")
