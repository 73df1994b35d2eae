"""The server of the story: a real one, in a directory of its own, that can be killed and started again."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import httpx

from dragoman.infra.auth.keyring import Keyring
from dragoman.infra.auth.tokens import Grant, Issuer

_LONGEST_S: Final = 60


class StageError(Exception):
    """The server did not come up."""


class Stage:
    """Starts, kills and asks it."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self.data_dir = directory / "data"
        self.log = directory / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        kept = {name: value for name, value in environment.items() if not name.startswith("DRAGOMAN_")}
        self.environment = kept | {
            "DRAGOMAN_DATA_DIR": str(self.data_dir),
            "DRAGOMAN_PORT": "0",
            "DRAGOMAN_TASKS__WORKERS": "dragoman.demo.courier:workers",
        }

    @property
    def database_url(self) -> str:
        """Of its PostgreSQL, for its owner."""
        return f"postgresql://postgres@/dragoman?host={self.data_dir / 'postgres'}"

    def start(self) -> None:
        """Start it and wait until it is ready.

        Raises:
            StageError: it does not become ready.
        """
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "dragoman", "serve"], env=self.environment, stdout=log, stderr=log
            )
        ends = time.monotonic() + _LONGEST_S
        while time.monotonic() < ends and self._process.poll() is None:
            if self._ready():
                return
            time.sleep(0.05)
        raise StageError(f"the server did not become ready; its log is {self.log}")

    def kill(self) -> None:
        """Pull the plug: no goodbye, nothing flushed."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def stop(self) -> None:
        """End it in peace."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(_LONGEST_S)

    def token(self, user: str, role: str) -> str:
        """Credentials of a person of the demo tenant."""
        issuer = Issuer(Keyring.open(self.data_dir / "secrets").issuer, audience="dragoman", ttl_s=3600)
        return issuer.mint(Grant("demo", user, [role]))

    def _ready(self) -> bool:
        try:
            note = json.loads((self.data_dir / "server.json").read_text())
            if self._process is None or note["pid"] != self._process.pid:
                return False
            self.url = str(note["url"])
            return httpx.get(f"{self.url}/ready", timeout=2).status_code == 200
        except (OSError, ValueError, KeyError, httpx.HTTPError):
            return False
