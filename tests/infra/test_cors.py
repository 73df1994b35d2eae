"""Which browser pages may call, and what they can read."""

from collections.abc import Iterator

import httpx
import pytest

from tests.backstage import metrics, sql
from tests.harness import InProcess, Server
from tests.minutes import in_one_minute

HOME = "https://app.example"
FOREIGN = "https://evil.example"
PREFLIGHT = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}


@pytest.fixture(scope="module")
def cors() -> Iterator[Server]:
    """A server that knows two pages; the audit trail of a tenant may be read once a minute."""
    with InProcess(
        {
            "DRAGOMAN_CORS_ORIGINS": f"{HOME}, http://localhost:5173",
            "DRAGOMAN_LIMITS__SKILL_PER_MIN": '{"audit": 1}',
        }
    ) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cors: Server) -> Iterator[httpx.Client]:
    with cors.admin() as client:
        yield client


def is_allowed(answer: httpx.Response, origin: str = HOME) -> bool:
    return answer.headers.get("access-control-allow-origin") == origin and "origin" in answer.headers["vary"].lower()


def says_nothing(answer: httpx.Response) -> bool:
    return not [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.req("GW-407")
@pytest.mark.parametrize("origin", [HOME, "http://localhost:5173"])
def test_a_preflight_of_a_configured_page_is_answered_without_credentials(cors: Server, origin: str) -> None:
    with cors.client() as client:
        answer = client.options("/api/users", headers={"origin": origin, **PREFLIGHT})

    assert answer.status_code == 204
    assert is_allowed(answer, origin)
    methods = set(answer.headers["access-control-allow-methods"].split(", "))
    headers = set(answer.headers["access-control-allow-headers"].split(", "))
    assert methods >= {"GET", "POST", "PUT", "PATCH", "DELETE"}
    assert headers >= {"authorization", "content-type", "x-api-key", "idempotency-key", "if-match", "last-event-id"}
    assert int(answer.headers["access-control-max-age"]) > 0
    assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.req("GW-407")
def test_a_configured_page_can_read_the_answer_and_its_headers(admin: httpx.Client) -> None:
    answer = admin.get("/api/me", headers={"origin": HOME})

    assert answer.status_code == 200
    assert is_allowed(answer)
    exposed = set(answer.headers["access-control-expose-headers"].split(", "))
    assert exposed >= {"x-request-id", "retry-after", "ratelimit", "x-ratelimit-remaining", "etag", "location"}


@pytest.mark.req("GW-407")
@pytest.mark.parametrize(
    "origin",
    [
        FOREIGN,
        "null",
        "http://app.example",
        f"{HOME}:8443",
        f"{HOME}.evil.example",
        "https://APP.example",
        "*",
        "file://",
    ],
)
def test_any_other_page_is_refused_on_preflight_and_on_the_request_itself(
    cors: Server, admin: httpx.Client, origin: str
) -> None:
    preflight = admin.options("/api/users", headers={"origin": origin, **PREFLIGHT})
    request = admin.post("/api/tenant", json={"name": "From Afar", "slug": "from-afar"}, headers={"origin": origin})

    for answer in (preflight, request):
        assert answer.status_code == 403
        assert answer.json()["details"]["reason"] == "FOREIGN_ORIGIN"
        assert says_nothing(answer)
    assert sql(cors, "SELECT FROM tenants WHERE slug = 'from-afar'") == []


@pytest.mark.req("GW-407")
def test_a_foreign_page_is_a_security_event(cors: Server) -> None:
    before = metrics(cors).get('dragoman_security_events_total{event="foreign_origin"}', 0)

    with cors.client() as client:
        answer = client.get("/api/me", headers={"origin": f"{FOREIGN}/{'x' * 2000}"})

    assert metrics(cors)['dragoman_security_events_total{event="foreign_origin"}'] == before + 1
    event = cors.security_events()[-1]
    assert (event["event"], event["request_id"]) == ("foreign_origin", answer.headers["x-request-id"])
    assert event["origin"].startswith(FOREIGN)
    assert len(event["origin"]) <= 500


@pytest.mark.req("GW-407")
def test_a_page_of_our_own_is_at_home(cors: Server, admin: httpx.Client) -> None:
    """Swagger UI sends an Origin with its POSTs, and needs no headers to read the answers."""
    own = cors.url
    answer = admin.post("/api/audit/verify", json={}, headers={"origin": own})

    assert admin.get("/docs", headers={"origin": own}).status_code == 200
    assert answer.status_code in (200, 429)
    assert says_nothing(answer)


@pytest.mark.req("GW-407")
def test_who_is_no_browser_hears_nothing_of_it(admin: httpx.Client) -> None:
    assert says_nothing(admin.get("/api/me"))


@pytest.mark.req("GW-407")
@in_one_minute
def test_a_configured_page_can_read_errors_too(cors: Server, admin: httpx.Client) -> None:
    """Without the header a browser shows its page a network error, and nobody learns of Retry-After."""
    home = {"origin": HOME}
    with cors.client() as stranger:
        unauthenticated = stranger.get("/api/me", headers=home)
    admin.get("/api/audit", headers=home)
    limited = admin.get("/api/audit", headers=home)
    sql(cors, "ALTER TABLE users RENAME COLUMN email TO gone")
    try:
        broken = admin.get("/api/users", headers=home)
    finally:
        sql(cors, "ALTER TABLE users RENAME COLUMN gone TO email")

    found = [unauthenticated, limited, broken, admin.get("/nowhere", headers=home)]
    assert [answer.status_code for answer in found] == [401, 429, 500, 404]
    assert all(is_allowed(answer) for answer in found)
    assert int(limited.headers["retry-after"]) > 0
