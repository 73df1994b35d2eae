"""The outermost ring, over the wire: what every request gets, and what no request can do."""

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import httpx
import jwt
import pytest

from tests.backstage import connect, exchange, locked, metrics, read_all, sql
from tests.harness import InProcess, Server, wait_for
from tests.tenants import beside

CAP = 4096
SECURITY = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}


@pytest.fixture(scope="module")
def edge() -> Iterator[Server]:
    """A server with a small mouth."""
    with InProcess({"DRAGOMAN_MAX_BODY_BYTES": str(CAP)}) as running:
        yield running


@pytest.fixture(scope="module")
def hasty(edge: Server) -> Iterator[Server]:
    """Another one beside it where a request has a second: no request that is to succeed goes there."""
    with InProcess(beside(edge) | {"DRAGOMAN_REQUEST_TIMEOUT_S": "1"}) as running:
        yield running


@pytest.fixture(scope="module")
def admin(edge: Server) -> Iterator[httpx.Client]:
    with edge.admin() as client:
        yield client


def lines_of(server: Server, request_id: str) -> list[dict[str, Any]]:
    """What the log says of a request, by our id or its client's, once it has said that it is finished."""

    def found() -> list[dict[str, Any]] | None:
        lines = [
            line for line in server.log_lines() if request_id in (line.get("request_id"), line.get("correlation_id"))
        ]
        return lines if any("httpRequest" in line for line in lines) else None

    return wait_for(found, f"the access log of {request_id}")


def access_line(server: Server, request_id: str) -> dict[str, Any]:
    (line,) = [line for line in lines_of(server, request_id) if "httpRequest" in line]
    return line


def head(raw: bytes) -> str:
    return raw.split(b"\r\n", 1)[0].decode()


def bearer(server: Server) -> bytes:
    return f"authorization: bearer {server.token()}\r\n".encode()


# Request ids and headers


@pytest.mark.req("GW-401", "GW-404")
@pytest.mark.parametrize(
    "ids", [{"x-request-id": "order-66.a:b_c"}, {"x-request-id": "hop-1", "x-correlation-id": "order-66.a:b_c"}]
)
def test_the_id_of_a_client_runs_through_answer_and_log_beside_ours(
    edge: Server, admin: httpx.Client, ids: dict[str, str]
) -> None:
    answer = admin.get("/api/me", headers=ids)

    request_id = answer.headers["x-request-id"]
    assert answer.json()["meta"]["requestId"] == request_id
    assert UUID(request_id).version == 7
    assert answer.headers["x-correlation-id"] == "order-66.a:b_c"
    assert {line["correlation_id"] for line in lines_of(edge, request_id)} == {"order-66.a:b_c"}


@pytest.mark.req("GW-401", "GW-404")
@pytest.mark.parametrize("hostile", ["x" * 129, "x" * 10_000, 'a"b', "a b", "${jndi:ldap://x}", "é", "../../etc", ""])
def test_a_hostile_request_id_gets_nowhere(edge: Server, hostile: str) -> None:
    with edge.client() as client:
        ids = {b"x-request-id": hostile.encode(), b"x-correlation-id": hostile.encode()}
        answer = client.get("/health", headers=ids)

    assert UUID(answer.headers["x-request-id"]).version == 7
    assert "x-correlation-id" not in answer.headers


@pytest.mark.req("GW-404")
def test_every_line_of_a_request_has_its_correlation_id(hasty: Server) -> None:
    """The failure is logged deep down, the refusal in the middle, the access at the edge."""
    with locked(hasty, "users"), hasty.admin() as admin:
        answer = admin.get("/api/users", headers={"x-correlation-id": "deep-1"})

    lines = lines_of(hasty, answer.headers["x-request-id"])
    assert {line["message"] for line in lines} >= {"request.timed_out", "GET /api/users 504"}
    assert {line.get("correlation_id") for line in lines} == {"deep-1"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/health", 200), ("GET", "/api/me", 401), ("GET", "/nowhere", 401), ("POST", "/metrics", 405)],
)
def test_security_headers_are_on_every_response(edge: Server, method: str, path: str, status: int) -> None:
    with edge.client() as client:
        answer = client.request(method, path)

    assert answer.status_code == status
    assert {name: answer.headers[name] for name in SECURITY} == SECURITY
    assert "server" not in answer.headers
    assert "strict-transport-security" not in answer.headers


# HTTP as strangers speak it


def test_head_answers_like_get_without_a_body(edge: Server, admin: httpx.Client) -> None:
    for path in ("/health", "/api/me", "/nowhere"):
        got, headed = admin.get(path), admin.head(path)

        assert headed.status_code == got.status_code
        assert headed.content == b""
        assert headed.headers["content-type"] == got.headers["content-type"]


@pytest.mark.req("GW-402")
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"BREW /api/me HTTP/1.1\r\nhost: x\r\n\r\n", 400),
        (b"TRACE /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", 405),
        (b"CONNECT x:443 HTTP/1.1\r\nhost: x\r\n\r\n", 400),
        (b"GET http://elsewhere HTTP/1.1\r\nhost: x\r\n\r\n", 400),
        (b"OPTIONS * HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", 401),
        (b"GET /health HTTP/9.9\r\nhost: x\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"GET /health HTTP/1.1\r\nhost: x\r\nx-a: b\rc\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nhost: x\r\nx-a: \x00\r\n\r\n", 400),
        (b"POST /api/me HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n", 400),
        (b"POST /api/me HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", 400),
        (b"POST /api/me HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nhost: x\r\n" + b"x-many: 1\r\n" * 20_000 + b"\r\n", 400),
        (b"GET /health HTTP/1.1\r\nhost: x\r\nx-long: " + b"a" * 400_000, 400),
        (b"GET /" + b"a" * 400_000, 400),
    ],
    ids=lambda value: value[:24].decode("latin-1").strip() if isinstance(value, bytes) else None,
)
def test_what_is_no_request_of_ours_gets_a_4xx_problem(edge: Server, sent: bytes, status: int) -> None:
    answer = exchange(edge, sent)

    assert head(answer).startswith(f"HTTP/1.1 {status} ")
    assert json.loads(answer.rpartition(b"\r\n\r\n")[2])["status"] == status
    assert b"x-content-type-options: nosniff" in answer.lower()


@pytest.mark.parametrize("name", [b"authorization", b"x-api-key", b"origin", b"host"])
def test_two_headers_where_one_decides_are_refused(edge: Server, name: bytes) -> None:
    """A proxy may have looked at the other one."""
    twice = name + b": bearer x\r\n" + name + b": bearer y\r\n"

    answer = exchange(edge, b"GET /api/me HTTP/1.1\r\nconnection: close\r\n" + twice + b"\r\n")

    assert head(answer) == "HTTP/1.1 400 Bad Request"
    assert name in answer.rpartition(b"\r\n\r\n")[2]


def test_http_1_0_is_answered_and_closed(edge: Server) -> None:
    answer = exchange(edge, b"GET /ready HTTP/1.0\r\n\r\n")

    assert head(answer) == "HTTP/1.1 200 OK"
    assert answer.endswith(b'{"ready":true}')


def test_pipelined_requests_are_answered_in_order(edge: Server) -> None:
    paths = [b"/ready", b"/nowhere", b"/health", b"/ready"]
    sent = b"".join(b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n" % path for path in paths[:-1])

    answer = exchange(edge, sent + b"GET /ready HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")

    statuses = [piece[:3] for piece in answer.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200", b"401", b"200", b"200"]


def test_garbage_behind_a_request_does_not_get_into_its_answer(hasty: Server) -> None:
    """The connection ends; a second answer in the middle of the first would be taken for it."""
    with locked(hasty, "tenants"):
        asked = b"GET /api/me HTTP/1.1\r\nhost: x\r\n" + bearer(hasty) + b"\r\n"
        answer = exchange(hasty, asked + b"\x00\x00garbage\r\n\r\n")

    assert answer.count(b"HTTP/1.1") <= 1
    assert not answer.startswith(b"HTTP/1.1 400")


def test_an_upgrade_is_not_offered_and_opens_no_second_way_in(edge: Server) -> None:
    upgrade = b"connection: upgrade, close\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"

    answer = exchange(edge, b"GET /api/me HTTP/1.1\r\nhost: x\r\n" + upgrade + b"\r\n")

    assert head(answer) == "HTTP/1.1 401 Unauthorized"


# Bodies


@pytest.mark.req("GW-406")
def test_a_body_over_the_cap_is_413_by_its_length_or_as_it_comes(admin: httpx.Client) -> None:
    declared = admin.post("/api/users", content=b"x" * (CAP + 1))
    chunked = admin.post("/api/users", content=iter([b"x" * 1000] * 5), headers={"content-type": "application/json"})
    fits = admin.post("/api/users", content=b" " * CAP, headers={"content-type": "application/json"})

    assert [declared.status_code, chunked.status_code, fits.status_code] == [413, 413, 400]
    assert declared.json()["code"] == chunked.json()["code"] == "PAYLOAD_TOO_LARGE"


def test_a_stranger_is_asked_who_he_is_before_his_body_is_looked_at(edge: Server) -> None:
    with edge.client() as client:
        answer = client.post("/api/users", content=b"x" * (CAP + 1))

    assert answer.status_code == 401


@pytest.mark.req("GW-210")
def test_a_body_that_never_ends_is_cut_off_by_the_time_out(hasty: Server) -> None:
    with connect(hasty) as wire:
        wire.sendall(
            b"POST /api/users HTTP/1.1\r\nhost: x\r\n"
            + bearer(hasty)
            + b"connection: close\r\ncontent-length: 9\r\n\r\n{"
        )
        answer = read_all(wire)

    assert head(answer) == "HTTP/1.1 504 Gateway Timeout"


def test_half_a_body_is_not_taken_for_a_whole_one(edge: Server, admin: httpx.Client) -> None:
    """A client that dies after the head has asked for nothing yet: here, an empty body would suspend a tenant."""
    made = admin.post("/api/tenant", json={"name": "Half", "slug": "half"}).json()["data"]
    token = f"authorization: bearer {edge.token(role='super_admin')}\r\nx-request-id: half-1\r\n".encode()

    with connect(edge) as wire:
        wire.sendall(
            b"POST /api/tenant/half/suspend HTTP/1.1\r\nhost: x\r\n" + token + b"content-length: 2\r\n"
            b"content-type: application/json\r\n\r\n"
        )
        wire.shutdown(socket.SHUT_WR)

    assert access_line(edge, "half-1")["httpRequest"]["status"] == 400
    assert admin.get(f"/api/tenant/{made['id']}").json()["data"]["status"] == "active"


def test_a_client_that_leaves_in_mid_request_leaves_nothing_behind(hasty: Server, admin: httpx.Client) -> None:
    with locked(hasty, "users"):
        asked = b"GET /api/users HTTP/1.1\r\nhost: x\r\n" + bearer(hasty)
        for number in range(30):  # more than the pool has connections
            with connect(hasty) as wire:
                wire.sendall(asked + b"x-request-id: left-%d\r\n\r\n" % number)
        wait_for(lambda: all(lines_of(hasty, f"left-{n}") for n in range(30)), "the end of all requests")

    assert admin.get("/api/users").status_code == 200
    wait_for(lambda: metrics(hasty).get("dragoman_open_requests") == 1, "no request but the scrape itself")
    wait_for(lambda: backends(hasty) == [], "the end of what the requests had begun")


def backends(server: Server) -> list[str]:
    """What the server's connections are in the middle of."""
    rows = sql(
        server,
        "SELECT state, wait_event_type, query FROM pg_stat_activity WHERE application_name = 'dragoman' "
        "AND datname = current_database() "
        "AND (state LIKE 'idle in transaction%' OR wait_event_type = 'Lock')",
    )
    return [f"{row['state']}: {row['query']}" for row in rows]


# Time


@pytest.mark.req("GW-210")
def test_a_request_that_takes_too_long_is_504_and_everything_it_held_is_free_again(
    edge: Server, hasty: Server, admin: httpx.Client
) -> None:
    new = {"email": "late@example.com", "name": "Late", "role": "viewer"}

    with locked(edge, "users"), hasty.admin() as late:
        answer = late.post("/api/users", json=new, headers={"x-request-id": "late-1", "idempotency-key": "late-1"})

    assert answer.status_code == 504
    problem = answer.json()
    assert (problem["code"], problem["retryable"]) == ("TIMEOUT", True)
    assert problem["requestId"] == answer.headers["x-request-id"]
    (line,) = [line for line in lines_of(hasty, "late-1") if line["message"] == "request.timed_out"]
    assert line["duration_s"] >= 1.0
    wait_for(lambda: backends(edge) == [], "the end of what the request had begun")
    assert sql(edge, "SELECT FROM users WHERE email = 'late@example.com'") == []
    assert admin.post("/api/users", json=new, headers={"idempotency-key": "late-1"}).status_code == 201


def test_requests_beside_a_slow_one_are_not_slowed(edge: Server, admin: httpx.Client) -> None:
    with ThreadPoolExecutor(1) as pool, locked(edge, "users"):
        slow = pool.submit(admin.get, "/api/users")
        with edge.admin() as other:
            statuses = {other.get("/api/me").status_code for _ in range(20)}
        assert (statuses, slow.done()) == ({200}, False)

    assert slow.result().status_code == 200


# The unforeseen


@pytest.mark.req("GW-207", "RAD-H2-2", "GW-402")
def test_the_unforeseen_is_500_outside_and_a_whole_stack_once_in_the_log(edge: Server, admin: httpx.Client) -> None:
    sql(edge, "ALTER TABLE users RENAME COLUMN email TO gone")
    try:
        answer = admin.get("/api/users", headers={"x-request-id": "broken-1"})
        beside = admin.get("/api/me")
    finally:
        sql(edge, "ALTER TABLE users RENAME COLUMN gone TO email")

    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["code"], problem["requestId"]) == ("INTERNAL_ERROR", answer.headers["x-request-id"])
    for internal in ("column", "asyncpg", "Undefined", "Traceback", "SELECT", ".py"):
        assert internal not in answer.text
    (stack,) = [line["stack_trace"] for line in lines_of(edge, "broken-1") if "stack_trace" in line]
    assert "UndefinedColumnError" in stack
    assert "Traceback" in stack
    assert beside.status_code == 200
    assert admin.get("/api/users").status_code == 200


# Logs and metrics


@pytest.mark.req("GW-404")
def test_the_access_log_says_who_did_what_how_and_how_long(edge: Server, admin: httpx.Client) -> None:
    answer = admin.get("/api/tenant/demo?x-api-key=hunter2", headers={"x-request-id": "logged-1"})

    line = access_line(edge, "logged-1")
    assert line["route"] == "/api/tenant/{tenant}"
    assert (line["tenant"], line["subject"]) == ("demo", "admin")
    request = line["httpRequest"]
    assert request["requestMethod"] == "GET"
    assert request["requestUrl"] == "/api/tenant/demo"
    assert request["status"] == answer.status_code
    assert request["remoteIp"] == "127.0.0.1"
    assert float(request["latency"].removesuffix("s")) > 0
    assert line["time"].endswith("Z")


@pytest.mark.req("GW-404")
def test_credentials_never_reach_the_log(edge: Server) -> None:
    token = edge.token(user="leaky")
    secret = "dgk_01a1e165506b7e60b622101c0713d853_" + "s3cr3t" * 6
    with edge.client() as client:
        client.get("/api/me", headers={"authorization": f"Bearer {token}"})
        client.get(f"/api/me?token={token}&api_key={secret}", headers={"x-api-key": secret})
        client.get(f"/api/{token}", headers={"user-agent": f"curl {token}", "referer": f"https://x/?t={token}"})
        client.get("/docs", headers={"cookie": f"session={secret}", "authorization": f"Basic {secret}"})
        last = client.get("/ready")

    lines_of(edge, last.headers["x-request-id"])
    for text in (edge.log.read_text(), (edge.data_dir / "security.jsonl").read_text()):
        assert token not in text
        assert token.rpartition(".")[2] not in text
        assert secret not in text
        assert "s3cr3ts3cr3t" not in text


@pytest.mark.req("GW-408")
def test_metrics_count_by_route_and_status_and_never_by_what_a_stranger_wrote(
    edge: Server, admin: httpx.Client
) -> None:
    before = metrics(edge)

    for path in ("/api/tenant/demo", "/api/tenant/nobody-here", "/api/no-such-thing", "/%7Bodd%7D"):
        admin.get(path)

    after = metrics(edge)

    def grown(route: str, status: int) -> float:
        name = f'dragoman_http_requests_total{{method="GET",route="{route}",status="{status}"}}'
        return after.get(name, 0) - before.get(name, 0)

    assert grown("/api/tenant/{tenant}", 200) == 1
    assert grown("/api/tenant/{tenant}", 404) == 1
    assert grown("unmatched", 404) == 2
    seconds = 'dragoman_http_request_seconds_count{method="GET",route="/api/tenant/{tenant}"}'
    assert after[seconds] - before.get(seconds, 0) == 2
    assert not [name for name in after if "nobody-here" in name or "odd" in name or "no-such" in name]


@pytest.mark.req("GW-408")
def test_metrics_show_what_every_part_counts_for_itself(edge: Server, admin: httpx.Client) -> None:
    admin.post("/api/tenant", json={"name": "Counted", "slug": "counted"})

    wait_for(lambda: metrics(edge).get("dragoman_audit_sealed_total", 0) > 0, "the seal of the record")
    found = metrics(edge)
    assert found["dragoman_limits_degraded"] == 0
    assert found["dragoman_audit_seal_lag_seconds"] >= 0
    assert any(name.startswith("dragoman_limit_checks_total") for name in found)


# Health


@pytest.mark.req("GW-105")
def test_a_healthy_server_says_so_to_its_load_balancer(edge: Server) -> None:
    with edge.client() as client:
        health, ready = client.get("/health"), client.get("/ready")

    assert (health.status_code, ready.status_code) == (200, 200)
    assert ready.json() == {"ready": True}
    report = health.json()
    assert report["status"] == "ok"
    assert set(report["dependencies"]) >= {"postgresql", "valkey"}
    for found in report["dependencies"].values():
        assert found["status"] == "up"
        assert found["latency_ms"] >= 0


@pytest.mark.req("GW-105")
def test_health_is_emitted_as_metrics_and_as_a_line_every_ten_seconds(edge: Server) -> None:
    wait_for(lambda: "ok" in pulses_of(edge), "a pulse")

    found = metrics(edge)
    assert found['dragoman_dependency_up{dependency="postgresql"}'] == 1
    assert found['dragoman_dependency_up{dependency="valkey"}'] == 1
    assert found["dragoman_processes"] == 1


def pulses_of(server: Server) -> list[str]:
    return [line["status"] for line in server.log_lines() if line.get("logger") == "dragoman.health"]


# Revoked and unknown


@pytest.mark.req("GW-202")
@pytest.mark.parametrize(("method", "path"), [("GET", "/api/nothing"), ("POST", "/api/users"), ("PUT", "/api/me")])
def test_a_revoked_token_is_401_even_where_the_request_is_wrong(
    edge: Server, admin: httpx.Client, method: str, path: str
) -> None:
    token = edge.token(user="revoked-one")
    with edge.client(token) as client:
        jti = jwt.decode(token, options={"verify_signature": False})["jti"]
        assert client.request(method, path, json={"no": "sense"}).status_code in (400, 404, 405)
        assert admin.post("/api/tokens/revoke", json={"token_id": jti}).status_code == 200

        answer = client.request(method, path, json={"no": "sense"})

    assert answer.status_code == 401
