"""One tenant takes all that it can get, and another works on."""

import base64
import os
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import typst

from dragoman.services.knowledge.constraints import effort
from tests.harness import InProcess, Server, wait_for
from tests.patience import PATIENCE_S
from tests.services.knowledge.test_servers import NO_PICKLE, enact
from tests.services.signatures.bombs import endless, revised
from tests.tenants import done, new_tenant


class SilentRemote:
    """Accepts connections and says nothing; `reached` is set with the first."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._open: list[socket.socket] = []
        self.url = f"https://127.0.0.1:{self._server.getsockname()[1]}/knowledge.git"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                self._open.append(self._server.accept()[0])
            except OSError:
                return
            self.reached.set()

    def close(self) -> None:
        """Refuse everybody, those who wait too."""
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for connection in self._open:
            connection.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server whose tenants may sync from this machine."""
    with InProcess({"DRAGOMAN_OUTBOUND__ALLOW": "127.0.0.1"}) as running:
        yield running


def test_ten_syncs_from_a_silent_remote_stop_nobody_else(server: Server) -> None:
    """Review finding 4: they held all threads of the process, for every tenant, the audit seal and the probes."""
    greedy, other = new_tenant(server), new_tenant(server)
    remote = SilentRemote()

    def sync(_: int) -> int:
        with server.client(server.token(tenant=greedy)) as client:
            return client.post("/api/knowledge/sync", json={"remote": remote.url}).status_code

    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(10))
        stack.callback(remote.close)
        syncs = [pool.submit(sync, number) for number in range(10)]
        assert remote.reached.wait(PATIENCE_S)

        with server.client(server.token(tenant=other)) as client:
            done(client.post("/api/knowledge/propose", json={"type": "adr", "title": "One", "content": "x"}))
            verified = done(client.post("/api/audit/verify", json={}))
            metrics = client.get("/metrics")
            health = client.get("/health").json()
        with server.client(server.token(tenant=greedy)) as client:
            status = client.get("/api/knowledge/status")
        ended = [one for one in syncs if one.done()]

    assert ended == []
    assert verified["ok"]
    assert metrics.status_code == 200
    assert {health["dependencies"][name]["status"] for name in ("git", "audit")} == {"up"}
    assert status.status_code == 200
    assert {one.result() for one in syncs} == {409}


def children_of(module: str) -> list[int]:
    """Return the processes of this server that run a module."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and module in (entry / "cmdline").read_text():
                found.append(int(entry.name))
    return found


def test_a_tenant_with_hostile_pdfs_waits_for_itself_alone(server: Server) -> None:
    """Review finding 15: four of them stopped signing and verifying for every tenant.

    The process that reads the first is suspended, so that nothing depends on how long it would take.
    """
    greedy, other = new_tenant(server), new_tenant(server)

    def verify(tenant: str, pdf: bytes) -> tuple[int, str]:
        with server.client(server.token(tenant=tenant, role="viewer")) as client:
            sent = client.post("/api/signatures/verify", json={"content": base64.b64encode(pdf).decode()})
        body = sent.json()
        return sent.status_code, body["data"]["verdict"] if sent.is_success else body["code"]

    with ThreadPoolExecutor(40) as pool:
        first = pool.submit(verify, greedy, endless())
        (reader,) = wait_for(lambda: children_of("dragoman.services.signatures.child"), "the process that reads it")
        os.kill(reader, signal.SIGSTOP)
        try:
            # One more than may wait: it is told so at once.
            rest = [pool.submit(verify, greedy, revised()) for _ in range(33)]
            early = wait(rest, PATIENCE_S, FIRST_COMPLETED).done
            verdict = verify(other, typst.compile(b"= NDA"))
            ended = [one for one in (first, *rest) if one.done()]
        finally:
            os.kill(reader, signal.SIGKILL)

    assert verdict == (200, "unsigned")
    assert set(ended) == early
    assert [one.result() for one in early] == [(429, "RATE_LIMITED")]
    assert {one.result() for one in (first, *rest) if one not in early} == {(400, "DOCUMENT_INVALID")}


def test_a_check_of_files_that_takes_too_long_is_ended(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five hundred proposals of a hundred patterns each, against ten megabytes, kept a thread for an hour."""
    files = [{"path": "a.py", "content": "import os"}]
    with server.client(server.token(tenant=new_tenant(server))) as client:
        enact(client, NO_PICKLE)
        monkeypatch.setattr(effort, "MOST_S", -1.0)
        checked = client.post("/api/knowledge/check", json={"files": files})
        judged = client.post("/api/governance/validate", json={"context": files[0], "target_layer": "project"})

    assert [(one.status_code, one.json()["code"]) for one in (checked, judged)] == [(413, "CHECK_TOO_LARGE")] * 2
