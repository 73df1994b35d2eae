import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.backstage import exchange, locked
from tests.doors.mcp.calling import ACCEPTS, MODERN, OLD, Mcp, read
from tests.harness import InProcess, Server
from tests.issuers import ExternalIssuer
from tests.minutes import in_one_minute
from tests.patience import PATIENCE_S
from tests.tenants import beside

METADATA = "/.well-known/oauth-protected-resource"


def test_without_credentials_a_client_is_told_where_to_read_how_to_get_some(spoken: Server) -> None:
    with spoken.client() as stranger:
        answer = stranger.post("/mcp", json={}, headers=ACCEPTS)
        challenge = answer.headers["www-authenticate"]
        document = stranger.get(f"{METADATA}/mcp").json()
        at_root = stranger.get(METADATA).json()

    assert answer.status_code == 401
    assert f'resource_metadata="{spoken.url}{METADATA}/mcp"' in challenge
    assert "read:audit" in challenge.partition('scope="')[2]
    assert "manage:" not in challenge
    assert document == at_root
    assert document["resource"] == f"{spoken.url}/mcp"
    assert "manage:users" in document["scopes_supported"]
    assert "authorization_servers" not in document


def test_a_bad_token_is_called_so(spoken: Server) -> None:
    with spoken.client("nonsense") as stranger:
        answer = stranger.post("/mcp", json={}, headers=ACCEPTS)

    assert answer.status_code == 401
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]
    assert "resource_metadata=" in answer.headers["www-authenticate"]


def test_other_addresses_challenge_as_ever(spoken: Server) -> None:
    with spoken.client() as stranger:
        answer = stranger.get("/api/me")

    assert answer.headers["www-authenticate"] == 'Bearer realm="dragoman"'


@pytest.mark.parametrize("era", [OLD, MODERN])
def test_a_token_with_too_few_scopes_is_told_which_one_would_do(spoken: Server, era: str) -> None:
    narrow = Mcp(spoken, role="org_admin", scopes=["read:audit"])

    answer = narrow.post("tools/call", {"name": "user_list", "arguments": {}}, era=era)

    assert answer.status_code == 403
    challenge = answer.headers["www-authenticate"]
    assert challenge.startswith('Bearer error="insufficient_scope"')
    assert 'scope="manage:users read:audit"' in challenge
    assert read(answer)["error"]["data"]["code"] == "UNAUTHORIZED"


def test_a_role_that_no_scope_would_help_gets_an_answer_and_no_challenge(spoken: Server) -> None:
    viewer = Mcp(spoken, role="viewer", scopes=["read:tasks"])

    answer = viewer.post("tools/call", {"name": "user_list", "arguments": {}})

    assert answer.status_code == 200
    assert read(answer)["result"]["structuredContent"]["error"]["code"] == "UNAUTHORIZED"


@pytest.mark.parametrize(("method", "allowed"), [("GET", "POST"), ("DELETE", "POST"), ("PUT", "DELETE, GET, POST")])
def test_without_a_session_there_is_nothing_to_get_or_delete(mcp: Mcp, method: str, allowed: str) -> None:
    answer = mcp.http.request(method, "/mcp", headers=ACCEPTS)

    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("evil.example", "http://evil.example", 403),
        ("localhost", "http://evil.example", 403),
        ("localhost", "http://localhost", 200),
        ("127.0.0.1", "http://127.0.0.1", 200),
    ],
)
def test_a_page_under_a_borrowed_name_is_refused(spoken: Server, host: str, origin: str, status: int) -> None:
    """DNS rebinding: the name in Host and Origin is the attacker's, the address is ours."""
    body = b'{"jsonrpc":"2.0","id":7,"method":"ping"}'
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nConnection: close\r\n"
        f"Authorization: Bearer {spoken.token()}\r\nAccept: application/json, text/event-stream\r\n"
        f"MCP-Protocol-Version: 2025-06-18\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )

    answer = exchange(spoken, head.encode() + body)

    assert answer.startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{", 400), (b"[]", 400), (b'"x"', 400), (b"", 400), (b'{"id": 1}', 400), (b"\xff", 400), (b"[" * 2000, 400)],
)
@pytest.mark.parametrize("era", [OLD, MODERN])
def test_what_is_no_message_is_refused(mcp: Mcp, body: bytes, status: int, era: str) -> None:
    answer = mcp.http.post("/mcp", content=body, headers=ACCEPTS | {"mcp-protocol-version": era})

    assert answer.status_code == status
    assert answer.json()["error"]["code"] in (-32700, -32600, -32602)


def test_another_media_type_is_refused(mcp: Mcp) -> None:
    answer = mcp.http.post("/mcp", content=b"<a/>", headers=ACCEPTS | {"content-type": "application/xml"})

    assert (answer.status_code, answer.json()["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.fixture(scope="module")
def strict() -> Iterator[Server]:
    """Three requests a minute and user, and small ones."""
    with InProcess({"DRAGOMAN_LIMITS__USER_PER_MIN": "3", "DRAGOMAN_MAX_BODY_BYTES": "2000"}) as running:
        yield running


@pytest.mark.parametrize("era", [OLD, MODERN])
@in_one_minute
def test_over_the_limit_http_says_when_to_come_back_and_the_body_says_it_to_the_client(
    strict: Server, era: str
) -> None:
    eager = Mcp(strict, user=f"eager-{era}-{uuid4().hex[:8]}")
    statuses = [eager.post("tools/call", {"name": "identity_show"}, era=era).status_code for _ in range(3)]

    refused = eager.post("tools/call", {"name": "identity_show"}, era=era)

    assert statuses == [200, 200, 200]
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) > 0
    error = read(refused)["error"]
    assert error["data"]["code"] == "RATE_LIMITED"
    assert error["data"]["retry_after_s"] > 0
    assert eager.post("tools/list", era=era).status_code == 200


@pytest.mark.parametrize("era", [OLD, MODERN])
def test_an_operation_has_as_long_as_any_request(spoken: Server, era: str) -> None:
    with InProcess(beside(spoken) | {"DRAGOMAN_REQUEST_TIMEOUT_S": "1"}) as hasty:
        caller = Mcp(hasty, keys_of=spoken)
        with locked(spoken, "audit_records"):
            answer = caller.post("tools/call", {"name": "audit_list", "arguments": {}}, era=era)

    assert "TIMEOUT" in answer.text


def test_a_body_over_the_cap_is_refused(strict: Server) -> None:
    wordy = Mcp(strict, user="wordy")

    answer = wordy.post("tools/call", {"name": "identity_show", "arguments": {"x": "y" * 3000}})

    assert answer.status_code == 413


def test_metadata_names_the_issuer_that_is_configured(spoken: Server) -> None:
    with ExternalIssuer() as issuer, InProcess(beside(spoken) | issuer.settings) as running:
        document = httpx.get(f"{running.url}{METADATA}/mcp", timeout=PATIENCE_S).json()

    assert document["authorization_servers"] == [issuer.url]


def test_without_the_extra_the_address_says_what_to_install(spoken: Server, tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise ImportError('not installed')")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    with Server(beside(spoken) | {"PYTHONPATH": path}) as bare:
        answer = Mcp(spoken, role="super_admin").http.post(f"{bare.url}/mcp", json={"id": 7}, headers=ACCEPTS)

    assert answer.status_code == 503
    assert answer.json()["error"]["data"]["code"] == "EXTRA_MISSING"
    assert "dragoman[mcp]" in answer.json()["error"]["message"]
