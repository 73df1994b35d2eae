from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.backstage import sql
from tests.doors.rest.calling import counts, data, fields, fresh, new_tenant, org_admin, problem
from tests.harness import Server
from tests.patience import PATIENCE_S

REPLAYED = "idempotency-replayed"


def together(call: Any, times: int) -> list[httpx.Response]:
    """All at once, each on a connection of its own."""
    with ThreadPoolExecutor(times) as threads:
        return [each.result() for each in [threads.submit(call, number) for number in range(times)]]


def test_fifty_at_once_make_one_tenant_of_a_slug(server: Server) -> None:
    slug, token = fresh(), server.token(role="super_admin")

    def create(number: int) -> httpx.Response:
        headers = {"authorization": f"Bearer {token}"}
        body = {"name": f"Racer {number}", "slug": slug}
        return httpx.post(f"{server.url}/api/tenant", json=body, headers=headers, timeout=PATIENCE_S)

    answers = together(create, 50)

    won = [answer for answer in answers if answer.status_code == 201]
    assert len(won) == 1
    for answer in answers:
        if answer is not won[0]:
            assert problem(answer, 409, "CONFLICT")["details"]["reason"] == "SLUG_TAKEN"
    assert [row["name"] for row in sql(server, "SELECT name FROM tenants WHERE slug = $1", slug)] == [
        data(won[0], 201)["name"]
    ]


def test_thirty_repetitions_at_once_are_one_creation_with_one_answer(server: Server) -> None:
    slug, key = fresh(), fresh("key")
    headers = {"authorization": f"Bearer {server.token(role='super_admin')}", "idempotency-key": key}
    body = {"name": "Once", "slug": slug, "settings": {"ratio": 0.1, "list": [1, "two", None]}}

    answers = together(
        lambda _: httpx.post(f"{server.url}/api/tenant", json=body, headers=headers, timeout=PATIENCE_S), 30
    )

    tenant = data(answers[0], 201)
    assert all(data(answer, 201) == tenant for answer in answers)
    assert sorted(answer.headers.get(REPLAYED, "") for answer in answers) == ["", *["true"] * 29]
    assert len({answer.headers["x-request-id"] for answer in answers}) == 30
    assert len(sql(server, "SELECT 1 FROM tenants WHERE slug = $1", slug)) == 1
    done = "SELECT 1 FROM audit_records WHERE position(convert_to($1, 'UTF8') IN body) > 0"
    assert len(sql(server, done, tenant["id"])) == 1


def test_a_key_with_another_input_is_a_conflict(server: Server) -> None:
    headers = {"idempotency-key": fresh("key")}
    with server.admin() as admin:
        data(admin.post("/api/tenant", json={"name": "One", "slug": fresh()}, headers=headers), 201)
        before = counts(server)

        other_body = admin.post("/api/tenant", json={"name": "Two", "slug": fresh()}, headers=headers)
        other_operation = admin.post("/api/keys", json={"name": "nightly"}, headers=headers)

    for refusal in (other_body, other_operation):
        body = problem(refusal, 409, "IDEMPOTENCY_CONFLICT")
        assert body["details"] == {"key": headers["idempotency-key"]}
    assert counts(server) == before


def test_the_same_input_in_other_words_is_the_same_input(server: Server) -> None:
    headers, slug = {"idempotency-key": fresh("key"), "content-type": "application/json"}, fresh()
    with server.admin() as admin:
        first = admin.post("/api/tenant", json={"name": "One", "slug": slug}, headers=headers)
        text = f'{{ "slug": "{slug}", "plan": "standard",\n "name": "  \\u004fne " }}'
        second = admin.post("/api/tenant", content=text, headers=headers)

    assert data(second, 201) == data(first, 201)
    assert second.headers[REPLAYED] == "true"


def test_a_failed_first_use_does_not_consume_the_key(server: Server) -> None:
    taken, headers = new_tenant(server)["slug"], {"idempotency-key": fresh("key")}
    with server.admin() as admin:
        problem(admin.post("/api/tenant", json={"name": "A", "slug": taken}, headers=headers), 409, "CONFLICT")
        fields(admin.post("/api/tenant", json={"name": "A"}, headers=headers))

        second = admin.post("/api/tenant", json={"name": "A", "slug": fresh()}, headers=headers)

    data(second, 201)
    assert REPLAYED not in second.headers


def test_keys_belong_to_one_principal_of_one_tenant(server: Server) -> None:
    one, other = new_tenant(server)["slug"], new_tenant(server)["slug"]
    headers = {"idempotency-key": "the-same-everywhere"}

    made: list[str] = []
    for tenant, user in ((one, "ada"), (one, "bob"), (other, "ada")):
        with org_admin(server, tenant, user) as client:
            answer = client.post("/api/keys", json={"name": "nightly"}, headers=headers)
            made.append(data(answer, 201)["id"])
            assert REPLAYED not in answer.headers

    assert len(set(made)) == 3


def test_a_repetition_does_not_show_the_secret_again(server: Server) -> None:
    with org_admin(server, new_tenant(server)["slug"]) as client:

        def twice(path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
            headers = {"idempotency-key": fresh("key")}
            return [data(client.post(path, json=body, headers=headers), 201) for _ in range(2)]

        key = twice("/api/keys", {"name": "nightly"})
        user = twice("/api/users", {"email": "ada@example.com", "name": "Ada"})

    assert key[1] == key[0] | {"secret": None}
    assert user[1] == user[0] | {"invitation": None}
    assert key[0]["secret"]
    kept = str(sql(server, "SELECT output FROM idempotency_keys"))
    assert key[0]["secret"] not in kept
    assert user[0]["invitation"] not in kept


@pytest.mark.parametrize("key", [b"", b"x" * 201, b"a\tb", "ключ".encode(), b"\xff"])
def test_an_unfit_key_is_refused(server: Server, key: bytes) -> None:
    before = counts(server)
    with server.admin() as admin:
        headers: Any = [(b"idempotency-key", key)]

        refusal = admin.post("/api/tenant", json={"name": "A", "slug": fresh()}, headers=headers)

    assert fields(refusal) == ["Idempotency-Key"]
    assert counts(server) == before


def test_a_key_may_be_as_long_as_it_is_said_to_be(server: Server) -> None:
    with server.admin() as admin:
        headers = {"idempotency-key": fresh() + "~" * 186}

        data(admin.post("/api/tenant", json={"name": "A", "slug": fresh()}, headers=headers), 201)
