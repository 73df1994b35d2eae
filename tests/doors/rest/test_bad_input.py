import json
import socket
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest

from dragoman.addresses import bindings
from dragoman.operations import Binding
from tests.doors.rest.calling import counts, data, fields, fresh, new_tenant, org_admin, problem
from tests.harness import Server
from tests.patience import PATIENCE_S

JSON = {"content-type": "application/json"}
MIB = 1024 * 1024
# Of invitations and one-time links nobody else may write.
OF_HOLDERS = ("accept:invitation", "answer:link")
WRITES = [each for each in bindings() if each.method != "GET" and each.operation.permission not in OF_HOLDERS]
# Each breaks every write, whatever it takes.
BROKEN = {
    "malformed": b'{"name": "a",\n  oops}',
    "truncated": b'{"name": "a',
    "array": b"[]",
    "text": b'"name"',
    "null": b"null",
    "number": b"1",
    "not a number": b'{"name": NaN}',
    "infinite": b'{"name": Infinity}',
    "beyond double": b'{"name": 1e999}',
    "huge": b'{"name": ' + b"9" * 4000 + b"}",
    "huger": b'{"name": ' + b"9" * 100_000 + b"}",
    "two values": b"{} {}",
    "byte order mark": b"\xef\xbb\xbf{}",
    "latin 1": '{"name": "é"}'.encode("latin-1"),
    "utf 16": '{"name": "a"}'.encode("utf-16"),
    "raw control": b'{"name": "a\x01"}',
    "raw null": b'{"name": "\x00"}',
    "null character": rb'{"name": "a\u0000"}',
    "null in an unknown field": rb'{"a\u0000": 1}',
    "lone surrogate": rb'{"name": "\ud800"}',
    "reversed surrogates": rb'{"name": "\udc00\ud800"}',
    "surrogate in a name": rb'{"\ud800": 1}',
    "unknown field": b'{"surprise": 1}',
    "prototype": b'{"__proto__": {"admin": true}}',
    "deep array": b'{"name": ' + b"[" * 100_000,
    "deep object": b'{"a":' * 300 + b"1" + b"}" * 300,
    "deep and closed": b'{"name": ' + b"[" * 700 + b"]" * 700 + b"}",
    "only blanks": b"   ",
}


@pytest.fixture(scope="module")
def admin(server: Server) -> Iterator[httpx.Client]:
    with server.admin() as client:
        yield client


def address(binding: Binding) -> str:
    """The path with something missing in it: nothing may be done to a thing that exists."""
    return (
        binding.path.replace("{tenant}", fresh("missing"))
        .replace("{user_id}", str(uuid4()))
        .replace("{key_id}", str(uuid4()))
    )


@pytest.mark.req("GW-204", "GW-406")
@pytest.mark.parametrize("binding", WRITES, ids=lambda each: each.operation.name)
def test_a_broken_body_is_refused_by_every_write_and_leaves_nothing(
    server: Server, admin: httpx.Client, binding: Binding
) -> None:
    before = counts(server)

    for name, body in BROKEN.items():
        refusal = admin.request(binding.method, address(binding), content=body, headers=JSON)
        assert fields(refusal) != [], name
        assert all(error["field"] and error["message"] for error in refusal.json()["errors"]), name

    assert counts(server) == before


@pytest.mark.req("GW-406")
@pytest.mark.parametrize("binding", WRITES, ids=lambda each: each.operation.name)
@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "application/json2", "",
                                          "application/json; charset=utf-16", None])  # fmt: skip
def test_a_body_that_is_not_declared_as_json_is_refused(
    admin: httpx.Client, binding: Binding, content_type: str | None
) -> None:
    headers = {} if content_type is None else {"content-type": content_type}

    refusal = admin.request(binding.method, address(binding), content=b"{}", headers=headers)

    assert problem(refusal, 415, "UNSUPPORTED_MEDIA_TYPE")["details"] == {"expected": "application/json"}


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "APPLICATION/JSON", 'application/json; charset="UTF-8"', "application/json ; boundary=x"],
)
def test_json_may_be_declared_in_every_usual_way(admin: httpx.Client, content_type: str) -> None:
    body = json.dumps({"name": "Acme", "slug": fresh()}).encode()

    data(admin.post("/api/tenant", content=body, headers={"content-type": content_type}), 201)


@pytest.mark.req("GW-204")
def test_a_syntax_error_is_shown_where_it_is(admin: httpx.Client) -> None:
    refusal = admin.post("/api/tenant", content=b'{"name": "a",\n  oops}', headers=JSON)

    assert fields(refusal) == ["body"]
    assert "line 2 column 3" in refusal.json()["errors"][0]["message"]


TENANT = {"name": "Acme", "slug": "free-slug"}
USER = {"email": "ada@example.com", "name": "Ada"}
KEY = {"name": "nightly"}


@pytest.mark.req("GW-204", "GW-406")
@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("/api/tenant", {}, ["name", "slug"]),
        ("/api/tenant", {**TENANT, "name": 1}, ["name"]),
        ("/api/tenant", {**TENANT, "name": None}, ["name"]),
        ("/api/tenant", {**TENANT, "name": ["Acme"]}, ["name"]),
        ("/api/tenant", {**TENANT, "name": "a\x07b"}, ["name"]),
        ("/api/tenant", {**TENANT, "name": "a\nb"}, ["name"]),
        ("/api/tenant", {**TENANT, "name": " \u00a0\u3000 "}, ["name"]),
        ("/api/tenant", {**TENANT, "name": "x" * 201}, ["name"]),
        ("/api/tenant", {**TENANT, "name": "\ufdfa" * 20}, ["name"]),
        ("/api/tenant", {**TENANT, "slug": True}, ["slug"]),
        ("/api/tenant", {**TENANT, "plan": "gold"}, ["plan"]),
        ("/api/tenant", {**TENANT, "plan": 1}, ["plan"]),
        ("/api/tenant", {**TENANT, "settings": []}, ["settings"]),
        ("/api/tenant", {**TENANT, "settings": "{}"}, ["settings"]),
        ("/api/tenant", {**TENANT, "settings": {"a": {"b": ["\x00"]}}}, ["settings"]),
        ("/api/tenant", {**TENANT, "settings": {"a": {"\x00": 1}}}, ["settings"]),
        ("/api/tenant", {**TENANT, "settings": {"a": 2**53}}, ["settings"]),
        ("/api/tenant", {**TENANT, "settings": {"a": -(10**30)}}, ["settings"]),
        ("/api/tenant", {**TENANT, "settings": {"a": [0] * 200_000}}, ["settings"]),
        ("/api/tenant", {**TENANT, "id": str(uuid4())}, ["id"]),
        ("/api/tenant", {**TENANT, "status": "active", "version": 7}, ["status", "version"]),
        ("/api/users", {}, ["email", "name"]),
        ("/api/users", {**USER, "email": "ada"}, ["email"]),
        ("/api/users", {**USER, "email": "a@b@example.com"}, ["email"]),
        ("/api/users", {**USER, "email": "ada@example.com\nbcc: all@example.com"}, ["email"]),
        ("/api/users", {**USER, "role": "king"}, ["role"]),
        ("/api/users", {**USER, "role": None}, ["role"]),
        ("/api/users", {**USER, "tenant_id": str(uuid4())}, ["tenant_id"]),
        ("/api/keys", {**KEY, "scopes": "read:costs"}, ["scopes"]),
        ("/api/keys", {**KEY, "scopes": ["everything"]}, ["scopes.0"]),
        ("/api/keys", {**KEY, "scopes": ["read:costs"] * 51}, ["scopes"]),
        ("/api/keys", {**KEY, "expires_at": "tomorrow"}, ["expires_at"]),
        ("/api/keys", {**KEY, "expires_at": "2099-01-01T00:00:00"}, ["expires_at"]),
        ("/api/keys", {**KEY, "expires_at": "2001-01-01T00:00:00Z"}, ["expires_at"]),
        ("/api/keys", {**KEY, "expires_at": 4_102_444_800}, ["expires_at"]),
        ("/api/keys", {**KEY, "principal_type": "ghost"}, ["principal_type"]),
        ("/api/tokens/revoke", {}, ["token_id"]),
        ("/api/tokens/revoke", {"token_id": ""}, ["token_id"]),
        ("/api/tokens/revoke", {"token_id": "x" * 201}, ["token_id"]),
        ("/api/tokens/revoke", {"token_id": "a\x00b"}, ["token_id"]),
        (f"/api/keys/{uuid4()}/rotate", {"grace_s": "1"}, ["grace_s"]),
        (f"/api/keys/{uuid4()}/rotate", {"grace_s": 1.5}, ["grace_s"]),
        (f"/api/keys/{uuid4()}/rotate", {"grace_s": True}, ["grace_s"]),
        (f"/api/keys/{uuid4()}/rotate", {"grace_s": -1}, ["grace_s"]),
        (f"/api/keys/{uuid4()}/rotate", {"grace_s": 10**30}, ["grace_s"]),
        (f"/api/keys/{uuid4()}/rotate", {"key_id": str(uuid4())}, ["key_id"]),
        ("/api/keys/not-an-id/rotate", {}, ["key_id"]),
        ("/api/users/1/disable", {}, ["user_id"]),
        ("/api/audit/verify", {"head": {"seq": 0, "hash": "00"}}, ["head.seq", "head.hash"]),
        ("/api/audit/verify", {"head": {"seq": 10**25, "hash": "0" * 64}}, ["head"]),
    ],
)  # fmt: skip
def test_every_wrong_field_is_named(
    server: Server, admin: httpx.Client, path: str, body: dict[str, Any], named: list[str]
) -> None:
    before = counts(server)

    assert fields(admin.post(path, json=body)) == named
    assert counts(server) == before


@pytest.mark.req("GW-406")
@pytest.mark.parametrize(
    ("at", "named"), [("9999-12-31T23:59:59-23:59", "body"), ("10000-01-01T00:00:00Z", "expires_at")]
)
def test_a_time_that_no_database_holds_is_refused(admin: httpx.Client, at: str, named: str) -> None:
    """What the database alone knows to be too late is told of the whole."""
    assert fields(admin.post("/api/keys", json={**KEY, "expires_at": at})) == [named]


@pytest.mark.req("GW-204")
@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/api/tenant?limit=0", "limit"),
        ("/api/tenant?limit=201", "limit"),
        ("/api/tenant?limit=ten", "limit"),
        ("/api/tenant?limit=1.5", "limit"),
        ("/api/tenant?limit=", "limit"),
        ("/api/tenant?limit=1&limit=2", "limit"),
        ("/api/tenant?cursor=1", "cursor"),
        ("/api/tenant?status=ACTIVE", "status"),
        ("/api/tenant?surprise=1", "surprise"),
        ("/api/tenant?limit", "query"),
        ("/api/tenant?%ff=1", "query"),
        ("/api/tenant/demo?tenant=other", "tenant"),
        ("/api/tenant/ab%00cd", "path"),
        ("/api/tenant/a", "tenant"),
        (f"/api/tenant/{'a' * 5000}", "tenant"),
        ("/api/users/1", "user_id"),
        ("/api/users/%F0%9F%98%80", "user_id"),
        (f"/api/users/{uuid4()}'--", "user_id"),
        ("/api/audit?operation=%00", "query"),
        ("/api/audit?since=yesterday", "since"),
        ("/api/audit/export?after=-1", "after"),
        ("/api/keys?include_revoked=perhaps", "include_revoked"),
    ],
)
def test_a_wrong_address_or_query_is_named(admin: httpx.Client, path: str, named: str) -> None:
    assert fields(admin.get(path)) == [named]


@pytest.mark.req("GW-204")
@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/api/audit/export?after=99999999999999999999", "after"),
        ("/api/audit?since=0001-01-01T00:00:00%2B23:59", "body"),
        ("/api/audit?until=9999-12-31T23:59:59-23:59", "body"),
    ],
)
def test_a_number_or_time_out_of_range_is_refused(admin: httpx.Client, path: str, named: str) -> None:
    assert fields(admin.get(path)) == [named]


def test_a_flood_of_fields_gets_a_short_answer(admin: httpx.Client) -> None:
    flood = {f"field{number}": 0 for number in range(50_000)}

    for refusal in (
        admin.post("/api/tenant", json=flood),
        admin.post("/api/tenant", json={"x" * 100_000: 1}),
        admin.get("/api/tenant?" + "&".join(f"a{number}=1" for number in range(5_000))),
    ):
        assert fields(refusal) != []
        assert len(refusal.content) < 2_000


def test_a_query_is_refused_where_none_is_read(admin: httpx.Client) -> None:
    """`?grace_s=60` that was silently dropped would end a key at once."""
    assert fields(admin.post(f"/api/keys/{uuid4()}/rotate?grace_s=60")) == ["query"]


def exchange(server: Server, head: str, pieces: Iterable[bytes] = (), *, finish: bool = True) -> bytes:
    """Bytes to the server as no client library would send them; everything it says until it closes."""
    where = urlsplit(server.url)
    assert where.hostname is not None
    with socket.create_connection((where.hostname, where.port or 80), timeout=PATIENCE_S) as wire:
        common = f"host: x\r\nconnection: close\r\nauthorization: Bearer {server.token(role='super_admin')}\r\n"
        wire.sendall(head.replace("\n", "\r\n").encode() + common.encode() + b"\r\n")
        try:
            for piece in pieces:
                wire.sendall(piece)
            if not finish:
                wire.shutdown(socket.SHUT_WR)
        except ConnectionError:
            pass  # it has answered before we were done
        heard = b""
        try:
            while some := wire.recv(65536):
                heard += some
        except ConnectionError:
            pass
        return heard


@pytest.mark.parametrize("path", ["/api/tenant/../users", "/api/tenant/%2e%2e/users", "/api/tenant/demo%2Fsuspend",
                                  "/api/tenant/x/../../me", "/api%2Ftenant", "/api/tenant/..%5c..%5cetc"])  # fmt: skip
def test_a_path_is_never_read_as_another(server: Server, path: str) -> None:
    for method in ("GET", "POST"):
        status = exchange(server, f"{method} {path} HTTP/1.1\ncontent-length: 0\n").split(b" ", 2)[1]

        assert status in (b"404", b"405"), status


@pytest.mark.req("GW-406")
def test_a_body_over_the_cap_is_refused_by_its_length_before_it_is_read(server: Server) -> None:
    before = counts(server)
    heard = exchange(server, f"POST /api/tenant HTTP/1.1\ncontent-type: application/json\ncontent-length: {11 * MIB}\n")

    assert heard.startswith(b"HTTP/1.1 413 ")
    assert b"application/problem+json" in heard
    assert b'"limit_bytes":10485760' in heard
    assert counts(server) == before


@pytest.mark.req("GW-406")
def test_a_body_over_the_cap_is_refused_though_it_does_not_say_its_length(server: Server, admin: httpx.Client) -> None:
    def chunks() -> Iterator[bytes]:
        yield b'{"name": "'
        for _ in range(11):
            yield b"a" * MIB
        yield b'", "slug": "big"}'

    before = counts(server)
    body = b"".join(chunks())

    problem(admin.post("/api/tenant", content=body, headers=JSON), 413, "PAYLOAD_TOO_LARGE")
    problem(admin.post("/api/tenant", content=chunks(), headers=JSON), 413, "PAYLOAD_TOO_LARGE")
    assert counts(server) == before


def test_a_body_that_breaks_off_is_not_taken_for_all(server: Server) -> None:
    """An empty body would do for a suspension: the client went away, and must not have said anything."""
    tenant = new_tenant(server)
    head = f"POST /api/tenant/{tenant['id']}/suspend HTTP/1.1\ncontent-type: application/json\ncontent-length: 100\n"

    exchange(server, head, finish=False)

    with server.admin() as admin:
        assert data(admin.get(f"/api/tenant/{tenant['id']}")) == tenant


SQL = "'); DROP TABLE tenants; -- \" $1 %s {0} ${jndi:x} <script>"


def test_sql_in_text_is_text(server: Server) -> None:
    tenant = new_tenant(server, name=SQL, settings={SQL: [SQL]})
    with org_admin(server, tenant["slug"]) as client, server.admin() as admin:
        invited = {"email": "o'hara;--@example.com", "name": SQL, "subject": SQL}
        user = data(client.post("/api/users", json=invited), 201)
        key = data(client.post("/api/keys", json={"name": SQL, "subject": SQL}), 201)
        revoked = data(client.post("/api/tokens/revoke", json={"token_id": SQL}))

        assert (tenant["name"], tenant["settings"]) == (SQL, {SQL: [SQL]})
        assert data(admin.get(f"/api/tenant/{tenant['id']}")) == tenant
        shown = data(client.get(f"/api/users/{user['id']}"))
        assert (shown["email"], shown["name"], shown["subject"]) == ("o'hara;--@example.com", SQL, SQL)
        assert (key["name"], data(client.get(f"/api/keys/{key['id']}"))["subject"]) == (SQL, SQL)
        assert revoked["id"] == f"cred:{SQL}"
        problem(admin.get(f"/api/tenant/{'x or 1=1'}"), 404, "NOT_FOUND")
        assert data(client.get("/api/audit", params={"subject": SQL})) == []


@pytest.mark.req("GW-406")
@pytest.mark.parametrize("character", ["\u202e", "\u200b", "\u200d", "\u2066", "\ufeff", "\u00ad", "\u2028", "\ue000",
                                       "\u3164", "\u2800", "\U000e0041"])  # fmt: skip
def test_a_name_with_something_invisible_in_it_is_refused(admin: httpx.Client, character: str) -> None:
    refusal = admin.post("/api/users", json={"email": f"{fresh()}@example.com", "name": f"Ada{character}Byron"})

    assert fields(refusal) == ["name"]


def test_names_in_any_script_are_kept(admin: httpx.Client) -> None:
    for name in ("Åsa Öberg", "李小龍", "محمد", "Ἀριστοτέλης", "नरेन्द्र", "O'Brien-Smith", "❤️ 😀"):
        user = data(admin.post("/api/users", json={"email": f"{fresh()}@example.com", "name": name}), 201)

        assert user["name"] == unicodedata.normalize("NFKC", name)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("rené@example.com", "rene\u0301@example.com"),
        ("ada@example.com", "ADA@Example.COM"),
        ("ada@example.com", "\uff41\uff44\uff41\uff20example.com"),
        ("ﬁn@example.com", "fin@example.com"),
        ("ada@example.com", " ada@example.com "),
    ],
)
def test_two_addresses_that_look_alike_are_one(server: Server, one: str, other: str) -> None:
    tenant = new_tenant(server)
    with org_admin(server, tenant["slug"]) as client:
        data(client.post("/api/users", json={"email": one, "name": "Ada"}), 201)

        again = client.post("/api/users", json={"email": other, "name": "Ada", "subject": "another"})

    assert problem(again, 409, "CONFLICT")["details"] == {"field": "email", "reason": "USER_EXISTS"}


@pytest.mark.req("GW-406")
def test_an_address_cannot_hide_a_mark_that_shows_nothing(admin: httpx.Client) -> None:
    refusal = admin.post("/api/users", json={"email": "ada\ufe0f@example.com", "name": "Ada"})

    assert fields(refusal) == ["email"]


@pytest.mark.req("GW-406")
def test_look_alike_names_fold_into_one(server: Server) -> None:
    assert new_tenant(server, name="\uff21\uff43\uff4d\uff45 ﬁne")["name"] == "Acme fine"
