"""What can answer or void nothing any more is removed, and what still can is not."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from dragoman.infra.ids import new_id
from tests.harness import InProcess, Server, wait_for
from tests.services.test_revocation import jti
from tests.tenants import beside, done, invite, new_tenant, query, status_of

REPLAYED = "idempotency-replayed"
AGED = "UPDATE {} SET created_at = now() - $2::interval WHERE tenant_id = $1"
LISTED = "SELECT ref FROM revocations WHERE tenant_id = $1 ORDER BY ref"
WAITING = """
INSERT INTO tasks (tenant_id, id, context_id, owner, state, caller) VALUES ($1, $2, 'c', 'eve', $3, $4::text::jsonb)"""
MANY = """
INSERT INTO revocations (tenant_id, ref, not_before, reason)
SELECT $1, 'cred:' || n, '9999-12-31 23:59:59+00', 'revoked' FROM generate_series(1, $2::int) AS n"""


@pytest.fixture(scope="module")
def tidy(server: Server) -> Iterator[Server]:
    """A server that removes what is due again and again."""
    with InProcess(beside(server) | {"DRAGOMAN_THREADS__CLEANUP_S": "1"}) as running:
        yield running


@pytest.fixture
def slug(server: Server) -> str:
    return new_tenant(server)


@pytest.fixture
def tenant(server: Server, slug: str) -> Any:
    return query(server, "SELECT id FROM tenants WHERE slug = $1", slug)[0]["id"]


@pytest.fixture
def admin(server: Server, slug: str) -> Iterator[httpx.Client]:
    with server.client(server.token(tenant=slug)) as client:
        yield client


def make(admin: httpx.Client, key: str) -> httpx.Response:
    return admin.post("/api/memories", json={"content": "tea is green"}, headers={"idempotency-key": key})


def test_an_idempotency_key_replays_for_its_time_and_is_then_removed_with_its_output(
    server: Server, tidy: Server, tenant: Any, admin: httpx.Client
) -> None:
    """Review, S2: keys and what they were answered were kept for ever."""
    del tidy
    first = make(admin, "one")
    query(server, AGED.format("idempotency_keys"), tenant, timedelta(days=29))
    again = make(admin, "one")
    done(make(admin, "two"))

    query(server, AGED.format("idempotency_keys") + " AND key = 'one'", tenant, timedelta(days=31))

    left = "SELECT key FROM idempotency_keys WHERE tenant_id = $1"
    wait_for(lambda: [row["key"] for row in query(server, left, tenant)] == ["two"], "the removal of the old key")
    anew = make(admin, "one")
    assert (again.json()["data"], again.headers.get(REPLAYED)) == (first.json()["data"], "true")
    assert REPLAYED not in anew.headers
    assert make(admin, "two").headers.get(REPLAYED) == "true"


@pytest.mark.req("GW-103")
def test_a_revocation_is_removed_when_what_it_voids_has_ended(
    server: Server, tidy: Server, slug: str, tenant: Any, admin: httpx.Client
) -> None:
    """Review finding 20: none was ever removed. Who is shut out for good, and every key, stays shut out."""
    user = invite(admin)
    key = done(admin.post("/api/keys", json={"name": "robot"}))
    held = done(admin.post("/api/keys", json={"name": "helper", "subject": "eve"}))
    token = server.token(tenant=slug, user="bob", role="viewer")
    for body in ({"token_id": jti(token)}, {"token_id": key["id"]}, {"subject": "eve"}):
        done(admin.post("/api/tokens/revoke", json=body))
    done(admin.post(f"/api/users/{user['id']}/disable"))
    before = [row["ref"] for row in query(server, LISTED, tenant)]

    query(server, AGED.format("revocations") + " AND ref <> $3", tenant, timedelta(days=31), f"cred:{jti(token)}")
    query(server, "UPDATE revocations SET not_before = now() - interval '31 days' WHERE ref = 'user:eve'")

    left = [f"cred:{jti(token)}", "user:ada"]
    wait_for(lambda: [row["ref"] for row in query(server, LISTED, tenant)] == left, "the removal of the old entries")
    assert before == sorted([f"cred:{key['id']}", f"cred:{jti(token)}", "user:ada", "user:eve"])
    with InProcess(beside(server)) as fresh:
        assert {status_of(fresh, one) for one in (token, key["secret"], held["secret"])} == {401}
        assert status_of(fresh, server.token(tenant=slug, user="ada", role="viewer")) == 401
        assert status_of(fresh, server.token(tenant=slug, user="eve", role="viewer")) == 200
    shown = done(admin.get("/api/keys", params={"include_revoked": "true"}))
    assert {one["name"] for one in shown if one["revoked_at"]} == {"robot", "helper"}


@pytest.mark.parametrize(
    ("state", "kind"), [("input_required", "cred"), ("dead_letter", "user"), ("queued", "super:user")]
)
def test_a_revocation_stays_as_long_as_work_of_its_sender_may_be_run(
    server: Server, tidy: Server, tenant: Any, state: str, kind: str
) -> None:
    """What waits is run for its sender if they were not revoked, and an approval may take a year."""
    del tidy
    query(server, WAITING, tenant, new_id(), state, json.dumps({"credential": "c-1", "subject": "eve"}))
    name = "c-1" if kind == "cred" else "eve"
    insert = """INSERT INTO revocations (tenant_id, ref, not_before, reason, created_at)
    VALUES ($1, $2, now() - interval '40 days', 'revoked', now() - interval '40 days')"""
    for ref in (f"{kind}:{name}", "cred:gone"):
        query(server, insert, tenant, ref)

    wait_for(lambda: len(query(server, LISTED, tenant)) == 1, "the removal of the other entry")
    waiting = query(server, LISTED, tenant)
    query(server, "UPDATE tasks SET state = 'rejected' WHERE tenant_id = $1", tenant)

    assert waiting == [{"ref": f"{kind}:{name}"}]
    wait_for(lambda: query(server, LISTED, tenant) == [], "the removal of the entry that nothing waits for")


def test_an_entry_that_alone_voids_a_key_stays(server: Server, tidy: Server, tenant: Any, admin: httpx.Client) -> None:
    """As an earlier release left them: the row of the key does not say that it was revoked."""
    del tidy
    key = done(admin.post("/api/keys", json={"name": "robot"}))
    insert = """
    INSERT INTO revocations (tenant_id, ref, not_before, reason, created_at)
    VALUES ($1, $2, '9999-12-31 23:59:59+00', 'revoked', $3)"""
    for ref in (f"cred:{key['id']}", "cred:gone"):
        query(server, insert, tenant, ref, datetime.now(UTC) - timedelta(days=40))

    wait_for(lambda: len(query(server, LISTED, tenant)) == 1, "the removal of the other entry")

    assert query(server, LISTED, tenant) == [{"ref": f"cred:{key['id']}"}]
    with InProcess(beside(server)) as fresh:
        assert status_of(fresh, key["secret"]) == 401


@pytest.mark.req("GW-103")
def test_a_tenant_revokes_so_many_tokens_and_keys_and_users_all_the_same(
    server: Server, slug: str, tenant: Any, admin: httpx.Client
) -> None:
    user, key = invite(admin), done(admin.post("/api/keys", json={"name": "robot"}))
    query(server, MANY, tenant, 10_000)

    one_more = admin.post("/api/tokens/revoke", json={"token_id": str(uuid4())})
    once_more = admin.post("/api/tokens/revoke", json={"token_id": "7"})
    done(admin.delete(f"/api/keys/{key['id']}"))
    done(admin.post(f"/api/users/{user['id']}/disable"))
    done(admin.post("/api/tokens/revoke", json={"subject": "eve"}))

    assert (one_more.status_code, one_more.json()["details"]) == (
        409,
        {"reason": "TOO_MANY_REVOCATIONS", "most": 10_000},
    )
    assert once_more.status_code == 200
    assert status_of(server, key["secret"]) == 401
    assert status_of(server, server.token(tenant=slug, user="ada", role="viewer")) == 401


@pytest.mark.req("GW-103")
def test_any_number_of_revocations_of_a_tenant_leaves_every_tenant_served(
    server: Server, slug: str, tenant: Any, admin: httpx.Client
) -> None:
    """Review finding 20: with 400,000 rows a restarted server answered everybody 503, for good."""
    revoked = server.token(tenant=slug, user="ada", role="viewer")
    done(admin.post("/api/tokens/revoke", json={"token_id": jti(revoked)}))
    query(server, MANY, tenant, 400_000)

    with InProcess(beside(server)) as fresh:
        others = status_of(fresh, server.token())
        own = [status_of(fresh, token) for token in (server.token(tenant=slug, user="bob"), revoked)]

    query(server, "DELETE FROM revocations WHERE tenant_id = $1", tenant)
    assert (others, own) == (200, [200, 401])
