import contextlib
import signal
import socket
import ssl
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import trustme
from prometheus_client import REGISTRY

from dragoman.errors import UpstreamUnavailable
from dragoman.infra.jobs import JobGroup
from dragoman.infra.limits import FOREVER, Limit, Limiter, Revocable, Revocation, Verdict
from dragoman.infra.limits.script import limit_keys, revoked_key
from dragoman.infra.limits.wire import ValkeyLostError, ValkeyRefusedError, open_wire
from dragoman.infra.telemetry.metrics import Metrics
from tests.infra.limits_valkey import Source, Valkey, until
from tests.infra.log_lines import captured
from tests.patience import PATIENCE_S

ALICE = Revocable(credential="key-1", subject="alice", issued_at=1_000.0)
USER = Limit("user", "user:alice", 1_000, 3600)


@pytest.fixture
def valkey() -> Iterator[Valkey]:
    server = Valkey()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
async def limiter(valkey: Valkey, source: Source) -> AsyncIterator[Limiter]:
    async with started(Limiter(valkey.url, revocations=source, timeout_s=PATIENCE_S, retry_s=0.05)) as limiter:
        yield limiter


@pytest.fixture
async def hasty(valkey: Valkey, source: Source) -> AsyncIterator[Limiter]:
    """One that gives Valkey little time; a busy machine may take more at any moment, so that it may count in memory."""
    async with started(Limiter(valkey.url, revocations=source, timeout_s=0.2, retry_s=0.05)) as limiter:
        yield limiter


@contextlib.asynccontextmanager
async def started(limiter: Limiter) -> AsyncGenerator[Limiter]:
    jobs = JobGroup(Metrics().jobs)
    jobs.add(limiter.job)
    await limiter.start()
    async with jobs:
        yield limiter
    await limiter.stop()


async def use_valkey(limiter: Limiter) -> None:
    """Count in Valkey once, whenever that works."""
    with anyio.fail_after(PATIENCE_S):
        while (await limiter.check("acme", [USER], ALICE)).degraded:  # noqa: ASYNC110  it is in another process
            await anyio.sleep(0.005)


def at_once(check: Coroutine[Any, Any, Verdict]) -> Verdict:
    """Give the verdict of a check that waits for nothing."""
    try:
        check.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("the check waits for something")


def gauge() -> float | None:
    return REGISTRY.get_sample_value("dragoman_limits_degraded")


async def check_many(limiter: Limiter, times: int) -> list[Verdict]:
    verdicts: list[Verdict] = []

    async def check() -> None:
        verdicts.append(await limiter.check("acme", [USER], ALICE))

    async with anyio.create_task_group() as group:
        for _ in range(times):
            group.start_soon(check)
    return verdicts


@pytest.mark.req("GW-209")
async def test_a_hung_valkey_costs_one_timeout_and_is_used_again_when_it_wakes(valkey: Valkey, hasty: Limiter) -> None:
    await use_valkey(hasty)
    valkey.signal(signal.SIGSTOP)

    with captured("limits.degraded", "limits.restored") as logs:
        first = await check_many(hasty, 20)
        later = [at_once(hasty.check("acme", [USER])) for _ in range(100)]
        await until(lambda: gauge() == 1)
        valkey.signal(signal.SIGCONT)
        await until(lambda: not hasty.degraded)
        restored = gauge()

    assert all(verdict.allowed and verdict.degraded for verdict in (*first, *later))
    assert restored == 0
    assert [entry["event"] for entry in logs] == ["limits.degraded", "limits.restored"]
    await use_valkey(hasty)


@pytest.mark.req("GW-209")
async def test_limits_hold_in_memory_without_valkey(source: Source) -> None:
    limiter = Limiter("unix:///nowhere", revocations=source, share=2)
    await limiter.start()

    verdicts = [await limiter.check("acme", [Limit("user", "alice", 10)], ALICE) for _ in range(20)]

    await limiter.stop()
    assert sum(verdict.allowed for verdict in verdicts) == 5
    assert {verdict.degraded for verdict in verdicts} == {True}


@pytest.mark.req("GW-103")
async def test_a_killed_valkey_that_returns_empty_forgets_no_revocation(
    valkey: Valkey, limiter: Limiter, source: Source
) -> None:
    source.entries = [Revocation("acme", "cred:key-1", FOREVER)]
    await limiter.revoke(source.entries[0])
    valkey.kill()

    away = await limiter.check("acme", [USER], ALICE)
    valkey.start()
    await until(lambda: not limiter.degraded)
    back = await limiter.check("acme", [USER], ALICE)

    assert (away.revoked, away.degraded) == (True, True)
    assert (back.revoked, back.degraded) == (True, False)


@pytest.mark.req("GW-102", "GW-103")
async def test_flushing_data_and_scripts_under_load_is_survived(
    valkey: Valkey, limiter: Limiter, source: Source
) -> None:
    source.entries = [Revocation("acme", "user:mallory", FOREVER)]
    verdicts: list[Verdict] = []

    for _ in range(10):
        verdicts += await check_many(limiter, 20)
        valkey.client.flushall()
        valkey.client.script_flush()
        mallory = await limiter.check("acme", [USER], Revocable("key-2", "mallory", 1_000.0))
        assert mallory.revoked

    assert [verdict.allowed and not verdict.degraded for verdict in verdicts] == [True] * 200


@pytest.mark.req("GW-103")
async def test_a_revocation_made_while_valkey_hangs_holds_when_it_wakes_with_its_old_copy(
    valkey: Valkey, limiter: Limiter, hasty: Limiter, source: Source
) -> None:
    """Valkey lost nothing, so its copy looks complete; it was told nothing, either."""
    assert (await limiter.check("acme", [USER], ALICE)).allowed
    await use_valkey(hasty)
    valkey.signal(signal.SIGSTOP)
    source.entries = [Revocation("acme", "user:alice", FOREVER)]

    await hasty.revoke(source.entries[0])

    assert (await hasty.check("acme", [USER], ALICE)).revoked
    valkey.signal(signal.SIGCONT)
    await until(lambda: not hasty.degraded)
    assert (await limiter.check("acme", [USER], ALICE)).revoked
    assert (await hasty.check("acme", [USER], ALICE)).revoked


@pytest.mark.req("GW-103")
async def test_an_instance_believes_no_copy_from_before_it_connected(valkey: Valkey, source: Source) -> None:
    """As after a restart from an old snapshot, or on a replica that lagged."""
    valkey.client.hset(revoked_key("acme"), mapping={"@born": "1", "@complete": "1"})
    source.entries = [Revocation("acme", "tenant", FOREVER)]
    limiter = Limiter(valkey.url, revocations=source, timeout_s=PATIENCE_S)
    await limiter.start()

    verdict = await limiter.check("acme", [USER], ALICE)

    await limiter.stop()
    assert verdict.revoked


@pytest.mark.req("GW-103")
async def test_without_valkey_the_source_is_read_once_a_second_and_its_last_word_stays(source: Source) -> None:
    now = 5_000.0
    source.entries = [Revocation("acme", "tenant", FOREVER)]
    limiter = Limiter("unix:///nowhere", revocations=source, clock=lambda: now)
    await limiter.start()

    before = [await limiter.check("acme", [USER], ALICE) for _ in range(50)]
    loads, source.fails, now = source.loads, True, 5_001.5
    failing = [await limiter.check("acme", [USER], ALICE) for _ in range(50)]
    failed_loads, source.fails, now = source.loads - loads, False, 5_003.0
    source.entries.clear()
    after = await limiter.check("acme", [USER], ALICE)

    await limiter.stop()
    assert all(verdict.revoked for verdict in (*before, *failing))
    assert (loads, failed_loads) == (1, 1)
    assert after.allowed


@pytest.mark.req("GW-103")
async def test_a_cold_valkey_without_the_source_goes_by_what_was_known(
    valkey: Valkey, limiter: Limiter, source: Source
) -> None:
    assert (await limiter.check("acme", [USER], ALICE)).allowed
    await limiter.revoke(Revocation("acme", "user:mallory", FOREVER))
    valkey.client.flushall()
    source.fails = True

    mallory = await limiter.check("acme", [USER], Revocable("key-2", "mallory", 1_000.0))
    alice = await limiter.check("acme", [USER], ALICE)

    assert mallory.revoked
    assert (alice.allowed, alice.degraded, alice.remaining) == (True, False, 999)
    with pytest.raises(UpstreamUnavailable):
        await limiter.check("rival", [USER], ALICE)


@pytest.mark.req("GW-103")
async def test_a_process_that_never_read_the_revocations_does_not_guess(source: Source) -> None:
    source.fails = True
    limiter = Limiter("unix:///nowhere", revocations=source)
    await limiter.start()

    with pytest.raises(UpstreamUnavailable):
        await limiter.check("acme", [USER], ALICE)

    assert (await limiter.check("10.0.0.1", [Limit("ip", "", 5)])).allowed
    await limiter.stop()


@pytest.mark.req("GW-209")
async def test_a_server_that_cannot_count_is_not_used(valkey: Valkey, limiter: Limiter) -> None:
    """It answers PING, and refuses every write: a replica, or one that is full."""
    valkey.client.execute_command("REPLICAOF", "127.0.0.1", "1")

    assert (await limiter.check("acme", [USER], None)).degraded
    await until(lambda: gauge() == 1)
    assert limiter.degraded

    valkey.client.execute_command("REPLICAOF", "NO", "ONE")
    await until(lambda: not limiter.degraded)
    assert valkey.client.exists(*limit_keys("acme", [USER])) == 0


async def test_ping_gives_the_latency_and_says_when_nobody_answers(valkey: Valkey, limiter: Limiter) -> None:
    assert await limiter.ping() > 0

    valkey.kill()

    await until(lambda: limiter.degraded)
    with pytest.raises(UpstreamUnavailable):
        await limiter.ping()


async def test_a_password_and_a_database_are_taken_from_the_url(valkey: Valkey) -> None:
    valkey.client.acl_setuser("app", enabled=True, passwords=["+p@ss/word"], commands=["+@all"], keys=["*"])
    valkey.client.acl_setuser("default", enabled=True, reset_passwords=True, passwords=["+secret"])

    named = await open_wire(f"unix://app:p%40ss%2Fword@{valkey.socket}?db=3", timeout_s=PATIENCE_S)
    await named.call("SET", "here", "3")
    plain = await open_wire(f"unix://:secret@{valkey.socket}", timeout_s=PATIENCE_S)

    assert [await named.call("GET", "here"), await plain.call("GET", "here")] == [b"3", None]
    named.close()
    plain.close()
    with pytest.raises(ValkeyRefusedError):
        await open_wire(f"unix://:wrong@{valkey.socket}", timeout_s=PATIENCE_S)
    with pytest.raises(ValkeyLostError):
        await named.call("PING")


async def test_rediss_speaks_tls_and_trusts_no_unknown_certificate(valkey: Valkey, tmp_path: Path) -> None:
    """Through a TLS relay of the test's own, the Valkey of the wheel being built without TLS."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)

    def relay(server: socket.socket) -> None:
        # The first client turns away at the certificate, the second one talks.
        for _ in range(2):
            raw, _ = server.accept()
            with contextlib.suppress(OSError), raw, context.wrap_socket(raw, server_side=True) as client:
                upstream = socket.socket(socket.AF_UNIX)
                upstream.connect(str(valkey.socket))
                with upstream:
                    while data := client.recv(65_536):
                        upstream.sendall(data)
                        client.sendall(upstream.recv(65_536))

    server = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=relay, args=[server], daemon=True)
    thread.start()
    url = f"rediss://localhost:{server.getsockname()[1]}"

    with pytest.raises(ValkeyLostError, match="CERTIFICATE_VERIFY_FAILED"):
        await open_wire(url, timeout_s=PATIENCE_S)
    wire = await open_wire(f"{url}/2?ssl_ca_certs={tmp_path / 'ca.pem'}", timeout_s=PATIENCE_S)

    assert await wire.call("PING") == b"PONG"
    wire.close()
    await until(lambda: not thread.is_alive())
    server.close()


async def test_another_scheme_is_refused_at_the_start(source: Source) -> None:
    with pytest.raises(ValueError, match="http"):
        await Limiter("http://localhost", revocations=source).start()
