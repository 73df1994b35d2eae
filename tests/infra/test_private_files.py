"""What a server writes is for its user alone."""

import os
import shutil
import stat
from pathlib import Path

from tests.harness import Server, wait_for


def is_private(path: Path) -> bool:
    """Check that one user alone can read or enter this; as root, the servers' user passes through the top."""
    return path.is_symlink() or path.is_socket() or not stat.S_IMODE(path.lstat().st_mode) & 0o077


def open_to_others(top: Path) -> list[str]:
    """What another user of the machine could read or enter, if they came near it."""
    return [str(path.relative_to(top)) for path in top.rglob("*") if not is_private(path)]


def test_everything_in_the_data_directory_is_private_whatever_the_umask() -> None:
    """A server that was started under 022, on a tree that an earlier one left open."""
    before = os.umask(0o022)
    try:
        with Server({"DRAGOMAN_LOG_LEVEL": "debug"}, keep=True) as server:
            use(server)
            wait_for((server.data_dir / "audit/heads.jsonl").exists, "a published head")
            at_first = open_to_others(server.data_dir)
            kinds = {path.relative_to(server.data_dir).parts[0] for path in server.data_dir.rglob("*")}
            mode = stat.S_IMODE(server.data_dir.stat().st_mode)
        for path in (
            server.data_dir,
            *(server.data_dir / "knowledge").rglob("*"),
            server.data_dir / "audit/heads.jsonl",
        ):
            path.chmod(0o755 if path.is_dir() else 0o644)
        with Server(at=server.data_dir) as again:
            after = open_to_others(again.data_dir)
            again_mode = stat.S_IMODE(server.data_dir.stat().st_mode)
    finally:
        os.umask(before)
    shutil.rmtree(server.data_dir.parent)

    assert kinds >= {
        "postgres",
        "valkey",
        "logs",
        "knowledge",
        "audit",
        "secrets",
        "server.json",
        "security.jsonl",
        "lock",
    }
    assert at_first == after == []
    assert {mode, again_mode} == {0o710 if os.geteuid() == 0 else 0o700}


def use(server: Server) -> None:
    """Make it write what it writes: a repository of knowledge, security events, audit records."""
    with server.client(server.token()) as client, server.client("wrong") as wrong:
        adr = {"type": "adr", "id": "adr-tea", "title": "Tea", "content": "Because."}
        assert client.post("/api/knowledge/propose", json=adr).status_code == 201
        assert client.post("/api/knowledge/adr-tea/accept", json={}).status_code == 200
        assert wrong.get("/api/me").status_code == 401
