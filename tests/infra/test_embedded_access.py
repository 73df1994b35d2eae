"""Who can reach what the embedded servers keep: their user and root, and nobody else on the machine."""
# ruff: noqa: ASYNC240  # a test has the loop to itself; blocking it holds up no one

import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from dragoman.infra.embedded import EmbeddedError, EmbeddedServices, account
from tests.clusters import lay_cluster

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user: run the suite as root")

# A program that gives its rights up as daemons do, and then tries to read what is not its own.
STRANGER = """
import asyncio, os, pwd, socket, sys

who, what, where = sys.argv[1:]
import asyncpg
entry = pwd.getpwnam(who)
os.setgroups([])
os.setgid(entry.pw_gid)
os.setuid(entry.pw_uid)

async def ask():
    connection = await asyncpg.connect(where)
    return await connection.fetchval("SELECT current_setting('is_superuser')")

try:
    if what == "postgresql":
        print("in:", asyncio.run(ask()))
    else:
        with socket.socket(socket.AF_UNIX) as wire:
            wire.connect(where)
            wire.sendall(b"PING\\r\\n")
            print("in:", wire.recv(100).decode())
except (OSError, asyncpg.PostgresError) as refused:
    print("refused:", type(refused).__name__, refused)
"""


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A place that everybody may come near, so that what is refused is refused by the data directory."""
    home = Path(tempfile.mkdtemp(prefix="dragoman-access-test-", dir="/tmp"))
    home.chmod(0o755)
    yield home / "d"
    shutil.rmtree(home)


@asynccontextmanager
async def started(data_dir: Path) -> AsyncGenerator[EmbeddedServices]:
    services = EmbeddedServices(data_dir)
    await services.start()
    try:
        yield services
    finally:
        await services.stop()


def stranger(who: str, what: str, where: str) -> str:
    """What another user of the machine is told."""
    argv = [sys.executable, "-c", STRANGER, who, what, where]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def owners(directory: Path) -> set[str]:
    """The names of the users who have something in a directory."""
    found = (directory, *directory.rglob("*"))
    return {pwd.getpwuid(path.lstat().st_uid).pw_name for path in found}


def open_up(data_dir: Path) -> None:
    """Undo every mode that stands in the way of the sockets."""
    for path in (data_dir, data_dir / "postgres", data_dir / "valkey"):
        path.chmod(0o755)
    for socket in (data_dir / "postgres/.s.PGSQL.5432", data_dir / "valkey/valkey.sock"):
        socket.chmod(0o777)


@pytest.mark.parametrize("who", ["nobody", "daemon", "dragoman"])
async def test_no_other_user_of_the_machine_gets_into_postgresql(data_dir: Path, who: str) -> None:
    """The directory keeps others out, and PostgreSQL does where it does not: it asks the kernel who comes."""
    lay_cluster(data_dir)
    async with started(data_dir) as services:
        at_the_directory = stranger(who, "postgresql", services.database_url)
        open_up(data_dir)
        at_the_socket = stranger(who, "postgresql", services.database_url)
        connection = await asyncpg.connect(services.database_url)
        ours = await connection.fetchval("SELECT current_user::text")
        await connection.close()

    if who != "dragoman":  # whose directory it is
        assert at_the_directory.startswith("refused: PermissionError")
    assert "refused: InvalidAuthorizationSpecificationError" in at_the_socket
    assert "Peer authentication failed" in at_the_socket
    assert ours == "postgres"


async def test_no_other_user_of_the_machine_reaches_valkey(data_dir: Path) -> None:
    lay_cluster(data_dir)
    async with started(data_dir) as services:
        socket = services.redis_url.removeprefix("unix://")

        assert stranger("nobody", "valkey", socket).startswith("refused: PermissionError")
        for path in (data_dir, data_dir / "valkey"):
            path.chmod(0o755)
        assert stranger("nobody", "valkey", socket).startswith("refused: PermissionError")


async def test_a_cluster_of_nobody_that_trusts_everybody_is_taken_over(data_dir: Path) -> None:
    """As a release before this one left it."""
    nobody = pwd.getpwnam("nobody")
    lay_cluster(data_dir)
    async with started(data_dir) as services:
        await execute(services.database_url, "CREATE TABLE tea (kind text)")
    for service in ("postgres", "valkey"):
        for path in (data_dir / service, *(data_dir / service).rglob("*")):
            os.chown(path, nobody.pw_uid, nobody.pw_gid, follow_symlinks=False)
    (data_dir / "postgres/pg_hba.conf").write_text("local all all trust\n")
    (data_dir / "postgres/pg_hba.conf").chmod(0o644)
    data_dir.chmod(0o711)

    async with started(data_dir) as services:
        await execute(services.database_url, "SELECT FROM tea")
        open_up(data_dir)
        refused = stranger("nobody", "postgresql", services.database_url)
        held_by = owners(data_dir)

    assert "Peer authentication failed" in refused
    assert held_by == {"root", "dragoman"}


async def test_a_file_of_nobody_with_a_name_elsewhere_is_not_given_away(data_dir: Path) -> None:
    """A hard link would let nobody choose which file of the machine changes its owner."""
    lay_cluster(data_dir)
    nobody = pwd.getpwnam("nobody")
    elsewhere = data_dir.parent / "elsewhere"
    elsewhere.touch()
    (data_dir / "postgres" / "linked").hardlink_to(elsewhere)
    for path in (data_dir / "postgres", elsewhere):
        os.chown(path, nobody.pw_uid, nobody.pw_gid)

    with pytest.raises(EmbeddedError, match=r"linked in .* has another name elsewhere"):
        await EmbeddedServices(data_dir).start()

    assert elsewhere.stat().st_uid == nobody.pw_uid


def test_a_server_does_not_start_as_nobody(data_dir: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    data_dir.mkdir()
    os.chown(data_dir, nobody.pw_uid, nobody.pw_gid)
    start = f"""
import asyncio, os
from pathlib import Path
from dragoman.infra.embedded import EmbeddedServices
os.setgroups([])
os.setgid({nobody.pw_gid})
os.setuid({nobody.pw_uid})
asyncio.run(EmbeddedServices(Path("{data_dir}")).start())
"""

    refused = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True, check=False)

    assert "EmbeddedError: the embedded servers do not run as user nobody" in refused.stderr


async def test_where_the_user_cannot_be_made_the_start_says_what_to_do(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account, "NAME", "dragoman-unmade")
    monkeypatch.setattr(account, "SYSTEM_PATH", "/nowhere")

    with pytest.raises(EmbeddedError, match=r"no useradd.*useradd --system dragoman-unmade"):
        await EmbeddedServices(data_dir).start()


async def test_servers_elsewhere_need_no_user_of_the_system(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "NAME", "dragoman-unmade")
    monkeypatch.setattr(account, "SYSTEM_PATH", "/nowhere")
    services = EmbeddedServices(data_dir, postgres=False, valkey=False)

    await services.start()
    await services.stop()

    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700


async def test_the_user_is_made_once_with_the_tools_of_the_system(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for useradd, so that the machine of the tests keeps its users."""
    asked = tmp_path / "asked"
    useradd = tmp_path / "useradd"
    useradd.write_text(f'#!/bin/sh\necho "$@" >> {asked}\n')
    useradd.chmod(0o755)
    found = iter([None, pwd.getpwnam("dragoman")] if known("dragoman") else [None, pwd.getpwnam("daemon")])
    monkeypatch.setattr(account, "SYSTEM_PATH", str(tmp_path))
    monkeypatch.setattr(account, "_find", lambda name: next(found) if name == account.NAME else pwd.getpwnam(name))

    made = account.Account.for_services(data_dir / "postgres")

    assert made.uid not in {0, pwd.getpwnam("nobody").pw_uid}
    assert asked.read_text().split()[0] == "--system"
    assert asked.read_text().split()[-1] == "dragoman"


def known(name: str) -> bool:
    return name in {entry.pw_name for entry in pwd.getpwall()}


async def execute(url: str, sql: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()
