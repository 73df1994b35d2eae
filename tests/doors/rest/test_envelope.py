import re
from collections.abc import Iterator
from uuid import UUID

import httpx
import pytest

from dragoman.addresses import bindings
from dragoman.errors import Kind
from dragoman.infra.edge import STATUS
from tests.backstage import sql
from tests.doors.rest.calling import data, fresh, new_tenant, org_admin, problem
from tests.harness import InProcess, Server
from tests.rules.tree import text


@pytest.fixture(scope="module")
def admin(server: Server) -> Iterator[httpx.Client]:
    with server.admin() as client:
        yield client


@pytest.mark.req("GW-401")
def test_every_success_has_the_envelope(server: Server) -> None:
    tenant = new_tenant(server)
    with org_admin(server, tenant["slug"]) as client:
        answers = [
            client.get("/api/me"),
            client.get("/api/tenant"),
            client.get("/api/audit"),
            client.get("/api/audit/export"),
            client.post("/api/audit/verify"),
            client.get("/api/users"),
            client.get("/api/keys"),
            client.patch(f"/api/tenant/{tenant['id']}", json={"name": "Other"}),
        ]
        made = [
            client.post("/api/users", json={"email": "ada@example.com", "name": "Ada"}),
            client.post("/api/keys", json={"name": "nightly"}),
        ]

    for answer in answers:
        data(answer)
        UUID(answer.json()["meta"]["requestId"])
        assert answer.headers["cache-control"] == "no-store"
    for answer in made:
        assert answer.headers["location"].endswith(data(answer, 201)["id"])


@pytest.mark.req("GW-401", "GW-402")
@pytest.mark.parametrize("path", ["/api/me", "/api/users?limit=x"])
def test_a_request_id_is_a_uuid_of_ours_and_the_id_of_the_client_correlates(admin: httpx.Client, path: str) -> None:
    answer = admin.get(path, headers={"x-request-id": "order-4711"})
    unfit = admin.get(path, headers={"x-request-id": "a b<script>"})

    for one in (answer, unfit):
        body = one.json()
        request_id = one.headers["x-request-id"]
        assert UUID(request_id).version == 7
        assert (body["meta"]["requestId"] if one.is_success else body["requestId"]) == request_id
        assert body.get("instance", f"urn:uuid:{request_id}") == f"urn:uuid:{request_id}"
    assert answer.headers["x-correlation-id"] == "order-4711"
    assert "x-correlation-id" not in unfit.headers


@pytest.mark.req("GW-402")
def test_errors_of_every_kind_are_problem_documents(server: Server, admin: httpx.Client) -> None:
    slug = new_tenant(server)["slug"]
    with server.client() as stranger, org_admin(server, slug) as limited:
        problem(stranger.get("/api/me"), 401, "UNAUTHENTICATED")
        problem(limited.post("/api/tenant", json={"name": "A", "slug": fresh()}), 403, "UNAUTHORIZED")
    problem(admin.post("/api/tenant", json={}), 400, "INVALID_PARAMS")
    problem(admin.get(f"/api/tenant/{fresh()}"), 404, "NOT_FOUND")
    problem(admin.post("/api/tenant", json={"name": "A", "slug": slug}), 409, "CONFLICT")
    stale = admin.patch(f"/api/tenant/{slug}", json={"name": "A"}, headers={"if-match": '"v9"'})
    problem(stale, 412, "PRECONDITION_FAILED")
    problem(
        admin.post("/api/tenant", content=b"a=1", headers={"content-type": "text/plain"}), 415, "UNSUPPORTED_MEDIA_TYPE"
    )


@pytest.mark.req("GW-402")
@pytest.mark.parametrize(
    "path",
    [
        "/api/",
        "/api/nothing",
        "/api/tenant/",
        "/api/tenant/demo/",
        "/api/tenant/demo/fly",
        "/api//tenant",
        "/API/tenant",
    ],
)
def test_an_unknown_path_is_a_problem_document(admin: httpx.Client, path: str) -> None:
    problem(admin.get(path), 404, "NOT_FOUND")


@pytest.mark.req("GW-402")
@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/api/tenant", "GET, HEAD, POST"),
        ("DELETE", "/api/me", "GET, HEAD"),
        ("GET", "/api/tenant/demo/suspend", "POST"),
        ("HEAD", "/api/tokens/revoke", "POST"),
        ("PROPFIND", "/api/tenant/demo", "DELETE, GET, HEAD, PATCH"),
    ],
)
def test_a_method_that_is_not_served_says_which_are(admin: httpx.Client, method: str, path: str, allowed: str) -> None:
    response = admin.request(method, path)

    assert (response.status_code, response.headers["allow"]) == (405, allowed)
    if method != "HEAD":
        problem(response, 405, "METHOD_NOT_ALLOWED")


def test_head_answers_like_get_without_a_body(admin: httpx.Client) -> None:
    for path in (each.path for each in bindings() if each.method == "GET" and not each.parameters):
        head, get = admin.head(path), admin.get(path)

        assert (head.status_code, head.content) == (get.status_code, b"")
        assert head.headers["content-type"] == get.headers["content-type"]


@pytest.mark.req("GW-207")
def test_an_unforeseen_failure_shows_a_request_id_and_nothing_else() -> None:
    """Our own database loses a table; what the log then says must not be in the answer."""
    with InProcess() as broken, broken.admin() as admin:
        data(admin.get("/api/keys"))

        sql(broken, "ALTER TABLE api_keys RENAME TO misplaced")

        body = problem(admin.get("/api/keys"), 500, "INTERNAL_ERROR")
        logged = [line for line in broken.log_lines() if line.get("request_id") == body["requestId"]]

    assert "api_keys" not in str(body)
    assert any("api_keys" in str(line) and "Traceback" in str(line) for line in logged)


@pytest.mark.req("GW-402")
def test_every_kind_has_a_status_and_the_page_for_callers_agrees() -> None:
    row = re.compile(r"^\| `[^`]+` \| (?P<kind>[a-z_]+) \| (?P<status>\d{3}) \|", re.MULTILINE)
    listed = {(match["kind"], int(match["status"])) for match in row.finditer(text("docs/errors.md"))}

    assert set(STATUS) == set(Kind)
    assert listed == {(kind.value, status) for kind, (status, _) in STATUS.items()}
