"""A host of git over SSH on loopback, for one key."""

import asyncio
import shlex
import subprocess
import threading
from typing import Any, Self

import pytest

from tests.services.knowledge.remotes import Remote


class SshHost:
    """`git upload-pack` behind SSH; every path leads to the one repository."""

    def __init__(self, remote: Remote, *, allowed: str) -> None:
        self._ssh: Any = pytest.importorskip("asyncssh", reason="there is no SSH server here: pip install asyncssh")
        self._remote = remote
        self._allowed = allowed
        self._key = self._ssh.generate_private_key("ssh-ed25519")
        self.public_key: str = self._key.export_public_key().decode().strip()
        self.users: set[str] = set()
        self.commands: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        self.port = self._server.get_port()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> Any:
        keys = self._ssh.import_authorized_keys(self._allowed)
        return await self._ssh.listen(
            "127.0.0.1", 0, server_host_keys=[self._key], authorized_client_keys=keys,
            process_factory=self._serve, encoding=None,
        )  # fmt: skip

    async def _close(self) -> None:
        self._server.close()
        await self._server.wait_closed()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    async def _serve(self, process: Any) -> None:
        self.users.add(process.get_extra_info("username"))
        self.commands.append(process.command)
        command = ["git", "upload-pack", str(self._remote.path)]
        assert shlex.split(process.command)[0] == "git-upload-pack"
        child = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        await asyncio.gather(_copy(process.stdin, child.stdin), _copy(child.stdout, process.stdout))
        process.exit(await child.wait())


async def _copy(source: Any, sink: Any) -> None:
    while piece := await source.read(65_536):
        sink.write(piece)
        await sink.drain()
    sink.write_eof()
