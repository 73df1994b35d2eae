"""Rate limits as a client meets them: who is counted, where it ends, and what the answer says."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import httpx
import pytest

from dragoman.infra.config import load_settings
from tests.backstage import add_tenant, metrics, sql
from tests.harness import InProcess, Server
from tests.minutes import in_one_minute
from tests.patience import PATIENCE_S

IP, USER, TENANT, SKILL = 6, 8, 12, 3
PROBES = ("/health", "/ready")
_ADDRESSES = count(1)


@pytest.fixture(scope="module")
def limited() -> Iterator[Server]:
    """Small quotas, so that a test can use them up."""
    with InProcess(
        {
            "DRAGOMAN_LIMITS__IP_PER_MIN": str(IP),
            "DRAGOMAN_LIMITS__USER_PER_MIN": str(USER),
            "DRAGOMAN_LIMITS__TENANT_PER_MIN": str(TENANT),
            "DRAGOMAN_LIMITS__SKILL_PER_MIN": f'{{"audit": {SKILL}}}',
            "DRAGOMAN_LIMITS__POLL_FACTOR": "2",
        }
    ) as running:
        yield running


def caller(server: Server, tenant: str, user: str = "ann") -> httpx.Client:
    return server.client(server.token(tenant=tenant, user=user))


def stranger() -> httpx.Client:
    """From an address of its own, as loopback has millions of them."""
    address = f"127.0.1.{next(_ADDRESSES)}"
    return httpx.Client(transport=httpx.HTTPTransport(local_address=address), timeout=PATIENCE_S)


def statuses(client: httpx.Client, path: str, times: int) -> list[int]:
    return [client.get(path).status_code for _ in range(times)]


def refusals(server: Server, **labels: str) -> float:
    wanted = [f'{name}="{value}"' for name, value in labels.items()]
    found = metrics(server)
    return sum(
        value
        for name, value in found.items()
        if name.startswith("dragoman_rate_limited_total{") and all(label in name for label in wanted)
    )


@pytest.mark.req("GW-009", "GW-010", "GW-011")
def test_the_quotas_are_a_hundred_three_hundred_and_a_thousand_a_minute() -> None:
    limits = load_settings({}).limits

    assert (limits.ip_per_min, limits.user_per_min, limits.tenant_per_min) == (100, 300, 1000)
    assert (limits.a2a_tenant_per_min, limits.agent_per_min) == (100, 10)


@pytest.mark.req("GW-009", "GW-201")
@in_one_minute
def test_a_stranger_gets_exactly_his_quota_and_wrong_credentials_count(limited: Server) -> None:
    with stranger() as client:
        url = limited.url
        found = [
            client.get(f"{url}/docs").status_code,
            client.get(f"{url}/api/me").status_code,
            client.get(f"{url}/api/me", headers={"authorization": "Bearer nonsense"}).status_code,
            client.get(f"{url}/nowhere").status_code,
            client.get(f"{url}/openapi.json").status_code,
            client.get(f"{url}/api/me", headers={"origin": "https://evil.example"}).status_code,
        ]
        refused = client.get(f"{url}/docs")
        with stranger() as other:
            beside = other.get(f"{url}/docs").status_code

    assert found == [200, 401, 401, 401, 200, 403]
    assert refused.status_code == 429
    assert refused.json()["code"] == "RATE_LIMITED"
    assert beside == 200


def test_probes_are_never_limited(limited: Server) -> None:
    with stranger() as client:
        found = {client.get(f"{limited.url}{path}").status_code for path in PROBES for _ in "x" * IP}

    assert found == {200}


@in_one_minute
def test_scrapes_are_limited_by_address(limited: Server) -> None:
    """Review finding 22: rendering costs more than most requests, and anybody may ask for it."""
    with stranger() as client:
        assert statuses(client, f"{limited.url}/metrics", IP + 1) == [200] * IP + [429]


def test_scrapes_need_the_token_where_one_is_set() -> None:
    with InProcess({"DRAGOMAN_METRICS_TOKEN": "letmein"}) as server, server.client() as client:
        without = client.get("/metrics")
        wrong = client.get("/metrics", headers={"authorization": "Bearer letmeout"})
        right = client.get("/metrics", headers={"authorization": "Bearer letmein"})

    assert (without.status_code, wrong.status_code, right.status_code) == (401, 401, 200)


@pytest.mark.req("GW-009")
@in_one_minute
def test_who_shows_valid_credentials_is_not_counted_by_address(limited: Server) -> None:
    tenant = add_tenant(limited)
    with stranger() as client:
        statuses(client, f"{limited.url}/docs", IP + 1)
        token = {"authorization": f"Bearer {limited.token(tenant=tenant)}"}

        assert client.get(f"{limited.url}/docs").status_code == 429
        assert client.get(f"{limited.url}/api/me", headers=token).status_code == 200


@pytest.mark.req("GW-010", "GW-201")
@in_one_minute
def test_a_user_gets_exactly_the_quota_then_429_with_all_that_helps_to_wait(limited: Server) -> None:
    tenant = add_tenant(limited)
    with caller(limited, tenant) as client:
        first = client.get("/api/me")
        rest = statuses(client, "/api/me", USER - 1)
        refused = client.get("/api/me")

    assert [first.status_code, *rest] == [200] * USER
    assert first.headers["x-ratelimit-limit"] == str(USER)
    assert first.headers["x-ratelimit-remaining"] == str(USER - 1)
    assert refused.status_code == 429
    assert refused.headers["content-type"] == "application/problem+json"
    problem = refused.json()
    assert (problem["code"], problem["retryable"], problem["details"]) == ("RATE_LIMITED", True, {"limit": "user"})
    assert 1 <= int(refused.headers["retry-after"]) <= 120
    assert refused.headers["ratelimit"].startswith('"user";r=0;t=')
    assert refused.headers["ratelimit-policy"] == f'"user";q={USER};w=60'
    assert refused.headers["x-ratelimit-remaining"] == "0"
    assert int(refused.headers["x-ratelimit-reset"]) >= int(refused.headers["retry-after"])


@pytest.mark.req("GW-201")
@in_one_minute
def test_a_refusal_is_logged_with_who_it_was_and_counted(limited: Server) -> None:
    tenant = add_tenant(limited)
    (row,) = sql(limited, "SELECT id FROM tenants WHERE slug = $1", tenant)
    with caller(limited, tenant, "bob") as client:
        statuses(client, "/api/users", USER)
        refused = client.get("/api/users")

    assert refused.status_code == 429
    assert refusals(limited, tenant_id=str(row["id"]), skill_name="user", limit="user") == 1
    (event,) = limited.security_events(of=refused.headers["x-request-id"])
    assert (event["event"], event["limit"]) == ("rate_limited", "user")
    assert (event["tenant"], event["subject"], event["ip"]) == (tenant, "bob", "127.0.0.1")
    assert event in [line for line in limited.log_lines() if line.get("stream") == "security"]


@pytest.mark.req("GW-011")
@in_one_minute
def test_a_tenant_is_counted_over_all_of_its_users(limited: Server) -> None:
    tenant, other = add_tenant(limited), add_tenant(limited)
    found: list[int] = []
    for user in ("ann", "bob", "cid"):
        with caller(limited, tenant, user) as client:
            found += statuses(client, "/api/me", TENANT // 3)
    with caller(limited, tenant, "dan") as client:
        refused = client.get("/api/me")
    with caller(limited, other, "dan") as client:
        beside = client.get("/api/me")

    assert found == [200] * TENANT
    assert (refused.status_code, refused.json()["details"]) == (429, {"limit": "tenant"})
    assert beside.status_code == 200


@pytest.mark.req("GW-102")
@in_one_minute
def test_a_refused_request_uses_up_nothing(limited: Server) -> None:
    """Ann's refusals must not eat what is left for Bob."""
    tenant = add_tenant(limited)
    with caller(limited, tenant, "ann") as ann, caller(limited, tenant, "bob") as bob:
        statuses(ann, "/api/me", USER)
        assert statuses(ann, "/api/me", TENANT) == [429] * TENANT

        assert statuses(bob, "/api/me", TENANT - USER + 1) == [200] * (TENANT - USER) + [429]


@pytest.mark.req("GW-010")
@in_one_minute
def test_requests_that_ask_for_nothing_there_is_count_too(limited: Server) -> None:
    """Else a caller could try addresses and bodies without end."""
    with caller(limited, add_tenant(limited)) as client:
        found = [client.get(f"/api/guess/{n}").status_code for n in range(USER - 2)]
        found += [client.post("/api/users", content=b"{").status_code, client.get("/elsewhere").status_code]

        assert found == [404] * (USER - 2) + [415, 404]
        assert client.get("/api/me").status_code == 429
        assert client.get("/api/guess/again").status_code == 429


@pytest.mark.req("GW-011")
@pytest.mark.parametrize(("plan", "quota"), [("free", TENANT // 2), ("enterprise", TENANT * 10)])
@in_one_minute
def test_the_plan_sets_the_quota_of_the_tenant(limited: Server, plan: str, quota: int) -> None:
    tenant = add_tenant(limited, plan=plan)
    found: list[int] = []
    users = -(-quota // USER)
    for number in range(users + 1):
        with caller(limited, tenant, f"user-{number}") as client:
            found += statuses(client, "/api/me", USER)

    assert found.count(200) == quota


@pytest.mark.req("RAD-H3-2")
@in_one_minute
def test_a_skill_has_a_limit_of_its_own(limited: Server) -> None:
    with caller(limited, add_tenant(limited)) as client:
        found = statuses(client, "/api/audit", SKILL)
        refused = client.get("/api/audit")

        assert found == [200] * SKILL
        assert (refused.status_code, refused.json()["details"]) == (429, {"limit": "skill:audit"})
        assert client.get("/api/me").status_code == 200


@in_one_minute
def test_polling_is_counted_apart_from_work(limited: Server) -> None:
    """Who waits for a result by asking must still be able to work."""
    with caller(limited, add_tenant(limited)) as client:
        polled = statuses(client, "/api/audit/export", 2 * SKILL)
        refused = client.get("/api/audit/export")

        assert polled == [200] * (2 * SKILL)
        assert (refused.status_code, refused.json()["details"]) == (429, {"limit": "poll-skill:audit"})
        assert statuses(client, "/api/audit", SKILL) == [200] * SKILL
        assert statuses(client, "/api/me", USER - SKILL + 1) == [200] * (USER - SKILL) + [429]


@pytest.mark.req("GW-102")
@in_one_minute
def test_many_at_once_get_exactly_the_quota(limited: Server) -> None:
    with caller(limited, add_tenant(limited)) as client, ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: client.get("/api/me").status_code, range(40)))

    assert found.count(200) == USER
    assert found.count(429) == 40 - USER


@pytest.mark.req("GW-408")
def test_how_full_the_limits_run_is_a_metric(limited: Server) -> None:
    with caller(limited, add_tenant(limited)) as client:
        before = metrics(limited).get('dragoman_rate_limit_used_ratio_count{limit="user"}', 0)
        client.get("/api/me")

    assert metrics(limited)['dragoman_rate_limit_used_ratio_count{limit="user"}'] == before + 1


@pytest.mark.req("GW-201")
@in_one_minute
def test_strangers_are_counted_by_network() -> None:
    """Review, S5: whoever has an IPv6 address has 2**64 of them; and one of IPv4 may be written in two ways."""
    addresses = [f"2001:db8:1:2::{number}" for number in range(1, 5)]
    written = ["::ffff:203.0.113.9", "203.0.113.9", "::ffff:203.0.113.9", "203.0.113.9"]
    proxied = {"DRAGOMAN_BEHIND_TLS_PROXY": "true", "DRAGOMAN_LIMITS__IP_PER_MIN": "3"}
    with InProcess(proxied) as server, server.client() as client:
        asked = [
            [client.get("/api/me", headers={"x-forwarded-for": address}).status_code for address in group]
            for group in (addresses, written, ["2001:db8:1:3::1"])
        ]

    assert asked == [[401, 401, 401, 429], [401, 401, 401, 429], [401]]
