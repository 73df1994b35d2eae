"""Taking credentials back: on the very next request, in every process, whatever Valkey forgets."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import jwt
import pytest

from tests.harness import InProcess, Server, wait_for
from tests.patience import PATIENCE_S
from tests.tenants import beside, done, invite, new_tenant, query, status_of


@pytest.fixture(scope="module")
def second(server: Server) -> Iterator[Server]:
    """Another process on the same database, Valkey and keys."""
    with InProcess(beside(server)) as running:
        yield running


@pytest.fixture
def slug(server: Server) -> str:
    return new_tenant(server)


@pytest.fixture
def admin(server: Server, slug: str) -> Iterator[httpx.Client]:
    with server.client(server.token(tenant=slug)) as client:
        yield client


def jti(token: str) -> str:
    return jwt.decode(token, options={"verify_signature": False})["jti"]


@pytest.mark.req("GW-103")
def test_a_revoked_token_is_refused_on_the_next_request_by_every_process(
    server: Server, second: Server, slug: str, admin: httpx.Client
) -> None:
    token, other = (server.token(tenant=slug, user="ada", role="viewer") for _ in range(2))
    before = [status_of(process, token) for process in (server, second)]

    done(admin.post("/api/tokens/revoke", json={"token_id": jti(token)}))

    assert before == [200, 200]
    assert [status_of(process, token) for process in (second, server)] == [401, 401]
    assert [status_of(process, other) for process in (second, server)] == [200, 200]


@pytest.mark.req("GW-103")
def test_revoking_a_principal_refuses_what_it_holds_and_not_what_it_gets_later(
    server: Server, second: Server, slug: str, admin: httpx.Client
) -> None:
    held = [server.token(tenant=slug, user="ada", role="viewer") for _ in range(3)]
    key = done(admin.post("/api/keys", json={"name": "robot", "subject": "ada"}))["secret"]
    warm = [status_of(process, credential) for process in (server, second) for credential in (*held, key)]

    done(admin.post("/api/tokens/revoke", json={"subject": "ada"}))

    assert warm == [200] * 8
    assert {status_of(process, credential) for process in (server, second) for credential in (*held, key)} == {401}
    fresh = server.token(tenant=slug, user="ada", role="viewer")
    assert [status_of(process, fresh) for process in (server, second)] == [200, 200]


@pytest.mark.req("GW-103", "GW-202")
def test_a_revoked_token_is_answered_as_any_other_that_is_not_valid(
    server: Server, slug: str, admin: httpx.Client
) -> None:
    token, request_id = server.token(tenant=slug, user="ada"), f"req-{uuid4().hex}"
    done(admin.post("/api/tokens/revoke", json={"token_id": jti(token)}))

    with server.client(token) as revoked, server.client("garbage") as garbage:
        answers = [client.get("/api/me", headers={"x-request-id": request_id}) for client in (revoked, garbage)]

    ours = [answer.headers["x-request-id"] for answer in answers]
    assert answers[0].text.replace(ours[0], "ID") == answers[1].text.replace(ours[1], "ID")
    assert [answer.headers["www-authenticate"] for answer in answers] == [
        'Bearer realm="dragoman", error="invalid_token"'
    ] * 2
    events = server.security_events(of=request_id)
    assert (events[0]["reason"], events[0]["credential_id"]) == ("revoked", jti(token))


@pytest.mark.req("GW-103")
def test_the_same_id_or_name_in_another_tenant_is_not_revoked(server: Server, slug: str, admin: httpx.Client) -> None:
    token = server.token(tenant=slug, user="ada")
    with server.client(server.token(tenant=new_tenant(server))) as stranger:
        done(stranger.post("/api/tokens/revoke", json={"token_id": jti(token)}))
        done(stranger.post("/api/tokens/revoke", json={"subject": "ada"}))

    assert status_of(server, token) == 200


@pytest.mark.req("GW-103")
def test_what_was_revoked_stays_revoked_when_valkey_is_killed() -> None:
    with Server() as alone:
        token, other = (alone.token(user="ada", role="viewer") for _ in range(2))
        with alone.admin() as admin:
            done(admin.post("/api/tokens/revoke", json={"token_id": jti(token)}))
        pid_file = alone.data_dir / "valkey" / "valkey.pid"
        killed = int(pid_file.read_text())

        os.kill(killed, signal.SIGKILL)
        during = [status_of(alone, credential) for credential in (token, other)]
        wait_for(lambda: restarted(alone, pid_file, killed), "another valkey")

        assert during == [401, 200]
        assert [status_of(alone, credential) for credential in (token, other)] == [401, 200]


def restarted(server: Server, pid_file: Path, before: int) -> bool:
    try:
        fresh = int(pid_file.read_text()) != before
    except (OSError, ValueError):
        return False
    return (
        fresh
        and httpx.get(f"{server.url}/health", timeout=PATIENCE_S).json()["dependencies"]["valkey"]["status"] == "up"
    )


@pytest.mark.req("GW-103")
def test_what_was_revoked_while_valkey_was_away_is_soon_known_everywhere() -> None:
    with Server() as first, InProcess(beside(first)) as second:
        token = first.token(user="ada", role="viewer")
        assert [status_of(process, token) for process in (first, second)] == [200, 200]
        os.kill(int((first.data_dir / "valkey" / "valkey.pid").read_text()), signal.SIGKILL)

        with first.admin() as admin:
            done(admin.post("/api/tokens/revoke", json={"token_id": jti(token)}))

        assert status_of(first, token) == 401
        wait_for(lambda: status_of(second, token) == 401, "the other process to know")


@pytest.mark.req("GW-103", "GW-006")
def test_a_disabled_user_is_refused_at_once_and_old_tokens_stay_dead_when_enabled(
    server: Server, second: Server, slug: str, admin: httpx.Client
) -> None:
    user = invite(admin)
    with server.client(user["invitation"]) as newcomer:
        old = done(newcomer.post("/api/users/accept", json={}))["token"]
    before = [status_of(process, old) for process in (server, second)]

    done(admin.post(f"/api/users/{user['id']}/disable"))
    disabled = [status_of(process, old) for process in (server, second)]
    minted_while_disabled = server.token(tenant=slug, user="ada", role="viewer")
    refused = status_of(server, minted_while_disabled)
    done(admin.post(f"/api/users/{user['id']}/enable"))

    assert (before, disabled, refused) == ([200, 200], [401, 401], 401)
    for process in (server, second):
        assert [status_of(process, token) for token in (old, minted_while_disabled)] == [401, 401]
        assert status_of(process, server.token(tenant=slug, user="ada", role="viewer")) == 200


@pytest.mark.req("GW-103")
def test_revoking_the_tokens_of_a_disabled_user_does_not_let_them_in(
    server: Server, slug: str, admin: httpx.Client
) -> None:
    user = invite(admin)
    done(admin.post(f"/api/users/{user['id']}/disable"))

    done(admin.post("/api/tokens/revoke", json={"subject": "ada"}))

    assert status_of(server, server.token(tenant=slug, user="ada", role="viewer")) == 401
    [row] = query(
        server,
        "SELECT not_before, expires_at FROM revocations r JOIN tenants t ON t.id = tenant_id WHERE slug = $1",
        slug,
    )
    assert (row["not_before"].year, row["expires_at"]) == (9999, None)


@pytest.mark.req("GW-103", "GW-006")
def test_a_new_role_ends_the_sessions_of_the_old_one(
    server: Server, second: Server, slug: str, admin: httpx.Client
) -> None:
    user = invite(admin, role="operator")
    old = server.token(tenant=slug, user="ada", role="operator")
    renamed = done(admin.patch(f"/api/users/{user['id']}", json={"name": "Ada King"}))
    after_rename = status_of(server, old)

    done(admin.patch(f"/api/users/{user['id']}", json={"role": "viewer"}))

    fresh = server.token(tenant=slug, user="ada", role="viewer")
    assert (renamed["name"], after_rename) == ("Ada King", 200)
    assert [status_of(process, old) for process in (server, second)] == [401, 401]
    assert [status_of(process, fresh) for process in (server, second)] == [200, 200]


@pytest.mark.req("GW-103")
def test_inviting_a_deleted_user_again_does_not_bring_old_tokens_back(
    server: Server, second: Server, slug: str, admin: httpx.Client
) -> None:
    user = invite(admin, role="operator")
    old = server.token(tenant=slug, user="ada", role="operator")
    assert done(admin.delete(f"/api/users/{user['id']}"))["success"] is True
    deleted = [status_of(process, old) for process in (server, second)]

    invite(admin)

    assert deleted == [401, 401]
    assert [status_of(process, old) for process in (server, second)] == [401, 401]
    assert status_of(second, server.token(tenant=slug, user="ada", role="viewer")) == 200


@pytest.mark.req("GW-103")
def test_a_suspended_tenant_is_refused_at_once_and_comes_back_whole(
    server: Server, second: Server, slug: str, admin: httpx.Client
) -> None:
    token = server.token(tenant=slug, user="ada")
    key = done(admin.post("/api/keys", json={"name": "robot"}))["secret"]
    invitation = invite(admin)["invitation"]
    held = (token, key, invitation)
    warm = [status_of(process, credential) for process in (server, second) for credential in held]

    with server.admin() as platform:
        done(platform.post(f"/api/tenant/{slug}/suspend"))
        suspended = [status_of(process, credential) for process in (server, second) for credential in held]
        done(platform.post(f"/api/tenant/{slug}/resume"))

    assert (warm, suspended) == ([200] * 6, [401] * 6)
    assert [status_of(process, credential) for process in (server, second) for credential in held] == [200] * 6


@pytest.mark.req("GW-103")
def test_a_deleted_tenant_is_refused_at_once_and_for_good(
    server: Server, second: Server, slug: str, admin: httpx.Client
) -> None:
    token = server.token(tenant=slug, user="ada")
    key = done(admin.post("/api/keys", json={"name": "robot"}))["secret"]
    invitation = invite(admin)["invitation"]
    held = (token, key, invitation)
    assert {status_of(process, credential) for process in (server, second) for credential in held} == {200}

    with server.admin() as platform:
        done(platform.delete(f"/api/tenant/{slug}"))
        again = platform.post("/api/tenant", json={"name": "Heir", "slug": slug})

    assert {status_of(process, credential) for process in (server, second) for credential in held} == {401}
    assert again.status_code == 409
    assert status_of(server, server.token(tenant=slug)) == 401


@pytest.mark.req("GW-103")
@pytest.mark.parametrize("subject", ["cred:x", "user:ada", "tenant", "@complete", "a:b", "~0", "ada {x}/revoked", "Ж"])
def test_a_subject_that_looks_like_a_reference_is_only_itself(
    server: Server, slug: str, admin: httpx.Client, subject: str
) -> None:
    bystanders = [server.token(tenant=slug, user=name, role="viewer") for name in ("ada", "x", "complete", "a", "b")]
    meant = server.token(tenant=slug, user=subject, role="viewer")

    done(admin.post("/api/tokens/revoke", json={"subject": subject}))

    assert status_of(server, meant) == 401
    assert {status_of(server, token) for token in bystanders} == {200}


@pytest.mark.req("GW-103")
@pytest.mark.parametrize("token_id", ["user:ada", "tenant", "@complete", "x:tenant"])
def test_a_token_id_that_looks_like_a_reference_is_only_itself(
    server: Server, slug: str, admin: httpx.Client, token_id: str
) -> None:
    done(admin.post("/api/tokens/revoke", json={"token_id": token_id}))

    assert status_of(server, server.token(tenant=slug, user="ada", role="viewer")) == 200


@pytest.mark.req("GW-103")
@pytest.mark.parametrize(
    "body", [{}, {"token_id": "a", "subject": "b"}, {"token_id": ""}, {"token_id": "a\x00"}, {"subject": " "}],
    ids=json.dumps,
)  # fmt: skip
def test_a_revocation_names_exactly_one_thing(admin: httpx.Client, body: dict[str, Any]) -> None:
    answer = admin.post("/api/tokens/revoke", json=body)

    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_PARAMS")


@pytest.mark.req("GW-103")
def test_an_admin_cannot_revoke_what_a_super_admin_holds(server: Server, slug: str, admin: httpx.Client) -> None:
    with server.client(server.token(role="super_admin", tenant=slug, user="root")) as root:
        invite(root, "boss", "super_admin")
        key = done(root.post("/api/keys", json={"name": "platform", "role": "super_admin"}))

    answers = [
        admin.post("/api/tokens/revoke", json={"subject": "boss"}),
        admin.post("/api/tokens/revoke", json={"token_id": key["id"]}),
    ]

    assert [(answer.status_code, answer.json()["details"]["reason"]) for answer in answers] == [
        (403, "ROLE_TOO_HIGH")
    ] * 2
    assert status_of(server, key["secret"]) == 200


@pytest.mark.req("GW-103")
def test_an_admin_cannot_shut_out_a_super_admin_by_their_subject_or_the_id_of_their_token(
    server: Server, slug: str, admin: httpx.Client
) -> None:
    """A super_admin of an outside issuer has no row: an invited user of the same subject is another's word."""
    token = server.token(role="super_admin", tenant=slug, user="root")
    viewer = server.token(role="viewer", tenant=slug, user="root")
    shadow = invite(admin, "root", "viewer")

    done(admin.post(f"/api/users/{shadow['id']}/disable"))
    done(admin.post("/api/tokens/revoke", json={"token_id": jti(token)}))
    done(admin.post("/api/tokens/revoke", json={"subject": "root"}))

    assert status_of(server, token) == 200
    assert status_of(server, viewer) == 401


@pytest.mark.req("GW-103")
def test_a_super_admin_can_shut_out_another(server: Server, second: Server, slug: str) -> None:
    token, other = (server.token(role="super_admin", tenant=slug, user="root") for _ in range(2))
    with server.client(server.token(role="super_admin", tenant=slug, user="boss")) as boss:
        done(boss.post("/api/tokens/revoke", json={"token_id": jti(token)}))
        one_by_one = [status_of(process, each) for process in (server, second) for each in (token, other)]
        done(boss.post("/api/tokens/revoke", json={"subject": "root"}))

    assert one_by_one == [401, 200] * 2
    assert [status_of(process, other) for process in (server, second)] == [401, 401]
