from collections.abc import AsyncIterator, Iterator, Sequence
from uuid import uuid4

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis.crc import key_slot

from dragoman.infra.limits import FOREVER, UNLIMITED, Limit, Limiter, Revocable, Revocation, Verdict
from dragoman.infra.limits.memory import MemoryLimits
from dragoman.infra.limits.script import CHECK, limit_keys, revoked_key
from tests.infra.limits_valkey import Source, Valkey, until
from tests.patience import PATIENCE_S

ALICE = Revocable(credential="key-1", subject="alice", issued_at=1_000.0)
HOSTILE = [
    "a\r\nDEL x",
    "}{",
    "{other}",
    "",
    "x" * 10_000,
    "日本語\ud800",
    "a b",
    "~" + "0" * 32,
    "tenant",
    "@complete",
]


@pytest.fixture(scope="module")
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
    limiter = Limiter(valkey.url, revocations=source, timeout_s=PATIENCE_S)
    await limiter.start()
    yield limiter
    await limiter.stop()


@pytest.fixture
def tenant() -> str:
    return str(uuid4())


def limit(name: str = "user", key: str = "user:alice", *, quota: int = 3, window_s: int = 3600) -> Limit:
    """An hour's window, so that no test meets its end."""
    return Limit(name, key, quota, window_s)


async def admitted(limiter: Limiter, partition: str, *limits: Limit, tries: int) -> int:
    verdicts = [await limiter.check(partition, limits) for _ in range(tries)]
    return sum(verdict.allowed for verdict in verdicts)


@pytest.mark.req("GW-102", "GW-009", "GW-010", "GW-011")
async def test_two_instances_admit_exactly_the_quota_of_200_concurrent_requests(
    valkey: Valkey, limiter: Limiter, source: Source, tenant: str
) -> None:
    other = Limiter(valkey.url, revocations=source, timeout_s=PATIENCE_S)
    await other.start()
    limits = [limit("ip", "ip:10.0.0.1", quota=180), limit(quota=100), limit("tenant", "", quota=1_000)]
    verdicts: list[Verdict] = []

    async def check(through: Limiter) -> None:
        verdicts.append(await through.check(tenant, limits, ALICE))

    async with anyio.create_task_group() as group:
        for _ in range(100):
            group.start_soon(check, limiter)
            group.start_soon(check, other)
    await other.stop()

    assert sum(verdict.allowed for verdict in verdicts) == 100
    assert {verdict.limit.name for verdict in verdicts if not verdict.allowed} == {"user"}
    assert not any(verdict.degraded for verdict in verdicts)


@pytest.mark.req("GW-102")
async def test_a_refusal_by_one_limit_consumes_none(limiter: Limiter, tenant: str) -> None:
    tight, wide = limit(quota=1), limit("tenant", "", quota=5)

    assert await admitted(limiter, tenant, tight, wide, tries=10) == 1

    assert await admitted(limiter, tenant, wide, tries=10) == 4


@pytest.mark.req("GW-102")
async def test_counters_free_themselves_within_two_windows(valkey: Valkey, limiter: Limiter, tenant: str) -> None:
    short, long = limit(window_s=60), limit("tenant", "", window_s=3600)

    await limiter.check(tenant, [short, long], ALICE)

    ttls = [valkey.client.pttl(key) for key in (*limit_keys(tenant, [short, long]), revoked_key(tenant))]
    assert [0 < ttl <= bound for ttl, bound in zip(ttls, (120_000, 7_200_000, 300_000), strict=True)] == [True] * 3


@pytest.mark.req("GW-010")
async def test_a_refused_caller_passes_after_the_time_it_was_told(
    valkey: Valkey, limiter: Limiter, tenant: str
) -> None:
    """With the current window full, and nobody else asking."""

    def now() -> float:
        seconds, microseconds = valkey.client.time()
        return seconds + microseconds / 1e6

    second = limit(quota=2, window_s=1)
    with anyio.fail_after(PATIENCE_S):
        while (verdict := await limiter.check(tenant, [second])).allowed:
            pass
    refused_at = now()

    await until(lambda: now() >= refused_at + verdict.retry_after_s)

    assert verdict.retry_after_s in {1, 2}
    assert (await limiter.check(tenant, [second])).allowed


async def test_a_verdict_names_the_limit_with_the_least_share_left(limiter: Limiter, tenant: str) -> None:
    limits = [limit(quota=10), limit("tenant", "", quota=4), limit("skill:memory", "", quota=100)]

    verdict = await limiter.check(tenant, limits)

    assert (verdict.allowed, verdict.limit, verdict.remaining, verdict.retry_after_s) == (True, limits[1], 3, 0)
    assert 3600 <= verdict.reset_s <= 7200


async def test_without_limits_everything_passes(limiter: Limiter, tenant: str) -> None:
    assert await limiter.check(tenant, [], ALICE) == Verdict(True, UNLIMITED, 0, 0, 0)


async def test_a_quota_of_nothing_refuses(limiter: Limiter, tenant: str) -> None:
    verdict = await limiter.check(tenant, [limit(quota=0, window_s=60)])

    assert (verdict.allowed, verdict.retry_after_s) == (False, 60)


@pytest.mark.req("GW-103")
@pytest.mark.parametrize("ref", ["cred:key-1", "user:alice", "tenant"])
async def test_a_revocation_holds_in_every_instance_at_the_next_request_and_costs_no_quota(
    valkey: Valkey, limiter: Limiter, source: Source, tenant: str, ref: str
) -> None:
    other = Limiter(valkey.url, revocations=source, timeout_s=PATIENCE_S)
    await other.start()
    assert (await other.check(tenant, [limit()], ALICE)).allowed

    await limiter.revoke(Revocation(tenant, ref, FOREVER))

    assert await other.check(tenant, [limit()], ALICE) == Verdict(False, UNLIMITED, 0, 0, 0, revoked=True)
    await limiter.unrevoke(tenant, ref)
    assert (await other.check(tenant, [limit()], ALICE)).remaining == 1
    await other.stop()


@pytest.mark.req("GW-103")
async def test_what_was_issued_after_a_revocation_is_valid(limiter: Limiter, source: Source, tenant: str) -> None:
    source.entries = [Revocation(tenant, "user:alice", not_before=2_000.0)]

    verdicts = [
        await limiter.check(tenant, [], Revocable("key-2", "alice", issued_at)) for issued_at in (1_999.9, 2_000.0)
    ]

    assert [verdict.revoked for verdict in verdicts] == [True, False]


@pytest.mark.req("GW-103")
async def test_requests_that_find_a_partition_cold_share_one_load(
    limiter: Limiter, source: Source, tenant: str
) -> None:
    source.entries = [Revocation(tenant, "cred:key-1", FOREVER), Revocation("another", "tenant", FOREVER)]
    before = source.loads
    verdicts: list[Verdict] = []

    async def check() -> None:
        verdicts.append(await limiter.check(tenant, [limit()], ALICE))

    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(check)

    assert [verdict.revoked for verdict in verdicts] == [True] * 50
    assert source.loads == before + 1


@pytest.mark.req("GW-103")
async def test_a_revocation_made_while_a_cold_copy_loads_is_not_lost(
    valkey: Valkey, limiter: Limiter, tenant: str
) -> None:
    """The load read the truth before the commit, and merges after the revocation was written."""

    class Late(Source):
        async def load(self, partition: str) -> AsyncIterator[Sequence[Revocation]]:
            assert partition == tenant
            entries = tuple(self.entries)
            await limiter.revoke(Revocation(tenant, "user:alice", FOREVER))
            yield entries

    other = Limiter(valkey.url, revocations=Late(), timeout_s=PATIENCE_S)
    await other.start()

    verdict = await other.check(tenant, [], ALICE)

    await other.stop()
    assert verdict.revoked


@pytest.mark.req("GW-103")
async def test_a_copy_lost_while_it_loads_is_loaded_again(valkey: Valkey, limiter: Limiter, tenant: str) -> None:
    class Emptied(Source):
        async def load(self, partition: str) -> AsyncIterator[Sequence[Revocation]]:
            assert partition == tenant
            entries = tuple(self.entries)
            self.loads += 1
            if self.loads == 1:
                self.entries = [Revocation(tenant, "tenant", FOREVER)]
                await limiter.revoke(self.entries[0])
                valkey.client.delete(revoked_key(tenant))
            yield entries

    source = Emptied()
    other = Limiter(valkey.url, revocations=source, timeout_s=PATIENCE_S)
    await other.start()

    verdict = await other.check(tenant, [], ALICE)

    await other.stop()
    assert (verdict.revoked, source.loads) == (True, 2)


@pytest.mark.req("GW-103")
async def test_a_tenant_with_many_revocations_is_loaded_whole_and_delays_no_other(
    valkey: Valkey, source: Source, tenant: str
) -> None:
    """Review finding 20: they were loaded together within a second, or everybody was 503."""
    loading, release = anyio.Event(), anyio.Event()

    class Large(Source):
        async def load(self, partition: str) -> AsyncIterator[Sequence[Revocation]]:
            if partition == "quiet":
                return
            for page in range(4):
                yield [Revocation(tenant, f"cred:{page}-{number}", FOREVER) for number in range(2_000)]
                loading.set()
                await release.wait()

    instance, verdicts = Limiter(valkey.url, revocations=Large(), timeout_s=PATIENCE_S), list[Verdict]()
    await instance.start()

    async def check(credential: str) -> None:
        verdicts.append(await instance.check(tenant, [], Revocable(credential, "alice", 1_000.0)))

    async with anyio.create_task_group() as group:
        for credential in ("0-0", "3-1999", "4-0"):
            group.start_soon(check, credential)
        await loading.wait()
        beside = await instance.check("quiet", [], ALICE)
        assert (beside.revoked, beside.degraded, verdicts) == (False, False, [])
        release.set()

    await instance.stop()
    assert [verdict.revoked for verdict in verdicts].count(True) == 2
    assert valkey.client.hlen(revoked_key(tenant)) == 8_002


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
async def test_hostile_names_count_and_revoke_only_themselves(
    valkey: Valkey, limiter: Limiter, tenant: str, text: str
) -> None:
    credential = Revocable(credential=text, subject=text, issued_at=1.0)
    hostile = [limit(text, text, quota=2)]
    partition = tenant + text

    assert await admitted(limiter, partition, *hostile, tries=4) == 2
    assert await admitted(limiter, partition, limit(quota=2), tries=4) == 2
    await limiter.revoke(Revocation(partition, f"user:{text}", FOREVER))

    assert (await limiter.check(partition, [], credential)).revoked
    assert not (await limiter.check(partition, [], ALICE)).revoked
    keys = [*limit_keys(partition, hostile), revoked_key(partition)]
    assert {valkey.client.exists(key) for key in keys} == {1}
    assert len({key_slot(key.encode()) for key in keys}) == 1
    assert all(key.count("{") == key.count("}") == 1 and len(key) < 250 for key in keys)


LIMITS = [Limit("a", "", 3, 10), Limit("b", "", 5, 30), Limit("c", "", 1, 60), Limit("d", "", 0, 60)]
STEP = st.tuples(
    st.integers(0, 45_000_000), st.lists(st.sampled_from(LIMITS), min_size=1, max_size=3, unique_by=lambda it: it.name)
)


@pytest.mark.req("GW-209")
@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEP, min_size=1, max_size=25))
def test_the_twin_in_memory_answers_as_the_script(valkey: Valkey, steps: list[tuple[int, list[Limit]]]) -> None:
    """The same requests at the same moments, the clock of both being ours."""
    script = CHECK.replace("redis.call('TIME')", "{ARGV[#ARGV - 1], ARGV[#ARGV]}")
    partition, now = str(uuid4()), 1_700_000_000_000_000
    memory = MemoryLimits(clock=lambda: now / 1_000_000)

    for advance, limits in steps:
        # What a float of epoch seconds tells apart exactly.
        now += advance // 1_000 * 1_000
        args = [value for limit in limits for value in (limit.quota, limit.window_s * 1_000_000)]
        keys = [revoked_key(partition), *limit_keys(partition, limits)]
        told = valkey.client.eval(script, len(keys), *keys, "", "", "", "", *args, now // 1_000_000, now % 1_000_000)
        assert list(memory.check(partition, limits)) == told
