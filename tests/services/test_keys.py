"""API keys: shown once, stored as a hash, never wider than their maker, replaced without a gap."""

import json
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from dragoman.infra.auth.keyring import Keyring
from dragoman.infra.auth.secrets import hash_secret, parse_api_key
from tests.harness import InProcess, Server
from tests.tenants import beside, done, new_tenant, query, status_of


@pytest.fixture
def slug(server: Server) -> str:
    return new_tenant(server)


@pytest.fixture
def admin(server: Server, slug: str) -> Iterator[httpx.Client]:
    with server.client(server.token(tenant=slug)) as client:
        yield client


@pytest.fixture
def root(server: Server, slug: str) -> Iterator[httpx.Client]:
    """A super_admin in the same tenant as `admin`."""
    with server.client(server.token(role="super_admin", tenant=slug, user="root")) as client:
        yield client


def make(client: httpx.Client, **changes: Any) -> dict[str, Any]:
    return done(client.post("/api/keys", json={"name": "robot", **changes}))


def in_hours(hours: float) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat()


def test_a_key_works_as_a_bearer_and_in_its_own_header(server: Server, slug: str, admin: httpx.Client) -> None:
    secret = make(admin, role="viewer", scopes=["read:costs"])["secret"]

    with server.client() as client:
        answers = [
            done(client.get("/api/me", headers=headers))
            for headers in ({"authorization": f"Bearer {secret}"}, {"x-api-key": secret})
        ]

    assert answers[0] == answers[1]
    assert {name: answers[0][name] for name in ("tenant", "subject", "type", "roles", "scopes")} == {
        "tenant": slug, "subject": "key:robot", "type": "service", "roles": ["viewer"], "scopes": ["read:costs"],
    }  # fmt: skip


def test_a_secret_is_in_the_answer_that_makes_it_and_nowhere_else(server: Server, admin: httpx.Client) -> None:
    key = make(admin)
    secret, random_part = key["secret"], key["secret"].rpartition("_")[2]

    seen = [
        admin.get("/api/keys").text,
        admin.get("/api/keys", params={"include_revoked": "true"}).text,
        admin.get(f"/api/keys/{key['id']}").text,
        admin.get("/api/audit").text,
        admin.delete(f"/api/keys/{key['id']}").text,
        server.log.read_text(),
        (server.data_dir / "security.jsonl").read_text(),
    ]

    assert [text for text in seen if random_part in text or '"secret"' in text] == []
    assert key["hint"] == f"{secret[:10]}...{secret[-4:]}"


def test_a_secret_is_stored_only_as_a_keyed_hash(server: Server, admin: httpx.Client) -> None:
    key = make(admin)
    parsed = parse_api_key(key["secret"])
    assert parsed is not None

    [row] = query(server, "SELECT secret_hash, k::text AS all FROM api_keys k WHERE id = $1", parsed.id)

    pepper = Keyring.open(server.data_dir / "secrets").pepper
    assert bytes(row["secret_hash"]) == hash_secret(parsed.secret, pepper)
    assert bytes(row["secret_hash"]) != hash_secret(parsed.secret, b"another pepper")
    assert parsed.secret not in row["all"]


def test_a_repeated_create_makes_one_key_and_shows_its_secret_once(server: Server, admin: httpx.Client) -> None:
    headers = {"idempotency-key": secrets.token_hex(8)}
    first, again = (admin.post("/api/keys", json={"name": "robot"}, headers=headers) for _ in range(2))

    assert (done(first)["secret"][:4], done(again)["secret"]) == ("dgm_", None)
    assert {**done(first), "secret": None} == done(again)
    assert [key["id"] for key in done(admin.get("/api/keys"))] == [done(first)["id"]]
    [row] = query(server, "SELECT output::text FROM idempotency_keys WHERE key = $1", headers["idempotency-key"])
    assert done(first)["secret"] not in row["output"]


def test_a_revoked_key_is_refused_at_once_by_every_process(server: Server, admin: httpx.Client) -> None:
    key = make(admin)
    with InProcess(beside(server)) as second:
        before = [status_of(process, key["secret"]) for process in (server, second)]

        ended = done(admin.delete(f"/api/keys/{key['id']}"))
        after = [status_of(process, key["secret"]) for process in (second, server)]
        again = admin.delete(f"/api/keys/{key['id']}")

    assert (before, after) == ([200, 200], [401, 401])
    assert ended["revoked_at"] is not None
    assert (again.status_code, done(admin.get("/api/keys"))) == (409, [])


def test_a_key_that_is_replaced_without_grace_ends_at_once(server: Server, admin: httpx.Client) -> None:
    old = make(admin, scopes=["read:costs"], role="viewer", expires_at=in_hours(2))
    before = status_of(server, old["secret"])

    fresh = done(admin.post(f"/api/keys/{old['id']}/rotate", json={}))

    assert (before, status_of(server, old["secret"]), status_of(server, fresh["secret"])) == (200, 401, 200)
    same = ("name", "subject", "principal_type", "role", "scopes", "expires_at")
    assert [fresh[name] for name in same] == [old[name] for name in same]
    assert done(admin.get(f"/api/keys/{old['id']}"))["replaced_by"] == fresh["id"]


def test_a_key_that_is_replaced_with_grace_works_until_the_grace_is_over(server: Server, admin: httpx.Client) -> None:
    old = make(admin)

    fresh = done(admin.post(f"/api/keys/{old['id']}/rotate", json={"grace_s": 600}))

    kept = done(admin.get(f"/api/keys/{old['id']}"))
    left_s = (datetime.fromisoformat(kept["expires_at"]) - datetime.now(UTC)).total_seconds()
    assert 500 < left_s <= 600
    assert [status_of(server, key["secret"]) for key in (old, fresh)] == [200, 200]
    done(admin.delete(f"/api/keys/{old['id']}"))
    assert [status_of(server, key["secret"]) for key in (old, fresh)] == [401, 200]
    assert done(admin.get(f"/api/keys/{old['id']}"))["replaced_by"] == fresh["id"]


def test_a_grace_does_not_outlive_the_key(admin: httpx.Client) -> None:
    old = make(admin, expires_at=in_hours(1))

    done(admin.post(f"/api/keys/{old['id']}/rotate", json={"grace_s": 86_400}))

    assert done(admin.get(f"/api/keys/{old['id']}"))["expires_at"] == old["expires_at"]


@pytest.mark.parametrize("grace_s", [0, 600])
def test_of_five_who_replace_a_key_at_once_one_does(
    server: Server, slug: str, admin: httpx.Client, grace_s: int
) -> None:
    old = make(admin)

    def rotate(_: int) -> int:
        with server.client(server.token(tenant=slug)) as client:
            return client.post(f"/api/keys/{old['id']}/rotate", json={"grace_s": grace_s}).status_code

    with ThreadPoolExecutor(5) as pool:
        statuses = sorted(pool.map(rotate, range(5)))

    assert statuses == [201, 409, 409, 409, 409]
    assert len(done(admin.get("/api/keys", params={"include_revoked": "true"}))) == 2


def test_a_key_that_ended_is_not_replaced(server: Server, admin: httpx.Client) -> None:
    """A fresh key of an expired one would be born dead, and one of a replaced one would end with the grace."""
    revoked, expired, replaced = make(admin), make(admin, expires_at=in_hours(1)), make(admin)
    done(admin.delete(f"/api/keys/{revoked['id']}"))
    query(server, "UPDATE api_keys SET expires_at = now() WHERE id = $1", expired["id"])
    done(admin.post(f"/api/keys/{replaced['id']}/rotate", json={"grace_s": 600}))

    answers = [admin.post(f"/api/keys/{key['id']}/rotate", json={}) for key in (revoked, expired, replaced)]

    assert [(answer.status_code, answer.json()["details"]["state"]) for answer in answers] == [
        (409, "revoked"), (409, "expired"), (409, "replaced"),
    ]  # fmt: skip


def test_an_admin_has_no_power_over_the_keys_of_a_super_admin(
    server: Server, admin: httpx.Client, root: httpx.Client
) -> None:
    key = make(root, role="super_admin")

    answers = [
        admin.post("/api/keys", json={"name": "mine", "role": "super_admin"}),
        admin.post(f"/api/keys/{key['id']}/rotate", json={}),
        admin.delete(f"/api/keys/{key['id']}"),
    ]

    assert [(answer.status_code, answer.json()["details"]["reason"]) for answer in answers] == [
        (403, "ROLE_TOO_HIGH")
    ] * 3
    assert status_of(server, key["secret"]) == 200


@pytest.mark.parametrize("scopes", [None, ["manage:users"], ["manage:keys", "manage:users"]], ids=json.dumps)
def test_a_limited_credential_makes_no_wider_key(server: Server, slug: str, scopes: list[str] | None) -> None:
    token = server.token(tenant=slug, scopes=["manage:keys"])
    with server.client(token) as limited:
        answer = limited.post("/api/keys", json={"name": "wide", "role": "org_admin", "scopes": scopes})
        narrow = limited.post("/api/keys", json={"name": "narrow", "role": "org_admin", "scopes": ["manage:keys"]})

    assert (answer.status_code, answer.json()["details"]["reason"]) == (403, "SCOPE_TOO_WIDE")
    assert narrow.status_code == 201


def test_a_limited_credential_gets_no_wider_secret_by_replacing_a_key(
    server: Server, slug: str, admin: httpx.Client
) -> None:
    wide = make(admin, role="org_admin")
    with server.client(server.token(tenant=slug, scopes=["manage:keys"])) as limited:
        answer = limited.post(f"/api/keys/{wide['id']}/rotate", json={"grace_s": 600})

    assert (answer.status_code, answer.json()["details"]["reason"]) == (403, "SCOPE_TOO_WIDE")
    assert status_of(server, wide["secret"]) == 200


def test_a_key_is_limited_to_its_scopes_and_its_role(server: Server, admin: httpx.Client) -> None:
    keys = {
        "all of an admin": make(admin, role="org_admin"),
        "users only": make(admin, role="org_admin", scopes=["manage:users"]),
        "no scope at all": make(admin, role="org_admin", scopes=[]),
        "an agent": make(admin),
    }

    statuses: dict[str, list[int]] = {}
    for name, key in keys.items():
        with server.client(key["secret"]) as client:
            statuses[name] = [client.get(path).status_code for path in ("/api/users", "/api/keys", "/api/audit")]

    assert statuses == {
        "all of an admin": [200, 200, 200],
        "users only": [200, 403, 403],
        "no scope at all": [403, 403, 403],
        "an agent": [403, 403, 403],
    }


def test_a_key_of_another_tenant_is_not_found(server: Server, admin: httpx.Client) -> None:
    address = f"/api/keys/{make(admin)['id']}"
    with server.client(server.token(tenant=new_tenant(server))) as stranger, server.admin() as platform:
        answers = [
            (client.get(address).status_code, client.delete(address).status_code,
             client.post(f"{address}/rotate", json={}).status_code)
            for client in (stranger, platform)
        ]  # fmt: skip

    assert answers == [(404, 404, 404)] * 2


@pytest.mark.parametrize(
    "body",
    [
        {"name": "robot", "expires_at": "2020-01-01T00:00:00Z"},
        {"name": "robot", "expires_at": "2030-01-01T00:00:00"},
        {"name": "robot", "role": "emperor"},
        {"name": "robot", "scopes": ["everything"]},
        {"name": "robot", "scopes": "manage:keys"},
        {"name": "robot", "secret": "mine"},
        {"name": ""},
    ],
    ids=json.dumps,
)
def test_a_key_that_makes_no_sense_is_refused(admin: httpx.Client, body: dict[str, Any]) -> None:
    answer = admin.post("/api/keys", json=body)

    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_PARAMS")
