"""Webhooks that are signed with a shared secret: only what was signed, now, by a live secret, is taken."""

import json
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from tests.backstage import sql
from tests.harness import InProcess, Server
from tests.minutes import in_one_minute
from tests.services.inbox.senders import EXPORT, Json, Source, plain, standard

pytestmark = pytest.mark.req("GW-013")
BODY = json.dumps(EXPORT).encode()
Forge = Callable[[Source], tuple[bytes, Json]]


@pytest.fixture(scope="module")
def source(server: Server) -> Source:
    return Source.register(server, account="123456789012")


@pytest.mark.parametrize("form", [standard, plain])
@pytest.mark.parametrize("provider", ["hmac", "k8s"])
def test_a_signed_webhook_is_durable_when_it_is_answered(server: Server, provider: str, form: Any) -> None:
    source = Source.register(server, provider)
    headers = form(source.secret, BODY, uuid4().hex) if form is standard else form(source.secret, BODY)

    taken = source.post(BODY, headers)

    assert taken.status_code == 202, taken.text
    [stored] = sql(server, "SELECT id, body, topic FROM webhook_events WHERE source_id = $1", source.id)
    assert (str(stored["id"]), bytes(stored["body"])) == (taken.json()["data"]["id"], BODY)
    assert stored["topic"] == "cost.export_ready"


def test_a_webhook_may_name_its_source_in_the_query(source: Source) -> None:
    headers = standard(source.secret, BODY, uuid4().hex)

    taken = source.post(BODY, headers, f"/api/webhooks/hmac?source={source.id}&tenant=demo&account=other")

    assert taken.status_code == 202


def _standard(**changes: Any) -> Forge:
    def forge(source: Source) -> tuple[bytes, Json]:
        signed = standard(source.secret, BODY, uuid4().hex, at=changes.get("at"), key=changes.get("key"))
        headers = signed | changes.get("headers", {})
        return changes.get("body", BODY), {name: value for name, value in headers.items() if value is not None}

    return forge


def _plain(**changes: Any) -> Forge:
    def forge(source: Source) -> tuple[bytes, Json]:
        headers = plain(changes.get("key", source.secret), BODY, at=changes.get("at"))
        return changes.get("body", BODY), headers | changes.get("headers", {})

    return forge


NOW = time.time()
FORGED: dict[str, Forge] = {
    "one byte changed": _standard(body=BODY.replace(b"focus", b"f0cus")),
    "a byte more": _standard(body=BODY + b" "),
    "the id of another": _standard(headers={"webhook-id": "another"}),
    "no id": _standard(headers={"webhook-id": None}),
    "an endless id": _standard(headers={"webhook-id": "x" * 300}),
    "a time of its own": _standard(headers={"webhook-timestamp": str(int(NOW) + 1)}),
    "a time that is none": _standard(headers={"webhook-timestamp": "1e9"}),
    "no signature": _standard(headers={"webhook-signature": None}),
    "an empty signature": _standard(headers={"webhook-signature": ""}),
    "an asymmetric signature": _standard(headers={"webhook-signature": "v1a,AAAA"}),
    "letters beyond ASCII": _standard(headers={"webhook-signature": b"v1,\xe4\xf6"}),
    "another secret": _standard(key="whsec_" + "A" * 43 + "="),
    "signed an hour ago": _standard(at=NOW - 3600),
    "signed in an hour": _standard(at=NOW + 3600),
    "plain, one byte changed": _plain(body=BODY.replace(b"focus", b"f0cus")),
    "plain, another secret": _plain(key="x" * 32),
    "plain, an hour ago": _plain(at=NOW - 3600),
    "plain, in an hour": _plain(at=NOW + 3600),
    "plain, a time of its own": _plain(headers={"x-timestamp": str(int(NOW) + 1)}),
    "plain, another hash": _plain(headers={"x-signature": "sha1=00"}),
}


@pytest.mark.req("GW-206")
@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED.keys())
def test_what_is_not_proved_is_refused_and_leaves_nothing_but_a_security_event(
    server: Server, source: Source, forge: Forge
) -> None:
    body, headers = forge(source)
    before = sql(server, "SELECT count(*) FROM webhook_events WHERE source_id = $1", source.id)

    refused = source.post(body, headers)

    told = refused.json()
    assert (refused.status_code, told["code"]) == (401, "UNAUTHENTICATED")
    events = server.security_events(of=told["instance"].removeprefix("urn:uuid:"))
    assert [(event["event"], event["provider"], event["source"]) for event in events] == [
        ("webhook_rejected", "hmac", source.id)
    ]
    assert "focus" not in json.dumps(events)
    assert sql(server, "SELECT count(*) FROM webhook_events WHERE source_id = $1", source.id) == before


@pytest.mark.req("GW-206")
def test_an_unknown_source_looks_like_a_bad_signature(server: Server, source: Source) -> None:
    headers = standard(source.secret, BODY, uuid4().hex)
    suspended = Source.register(server)
    sql(server, "UPDATE tenants SET status = 'suspended' WHERE slug = $1", suspended.tenant)
    elsewhere = [
        source.post(BODY, headers | {"webhook-signature": "v1,AAAA"}),
        source.post(BODY, headers, f"/api/webhooks/hmac/{uuid4()}"),
        source.post(BODY, headers, f"/api/webhooks/k8s/{source.id}"),
        source.post(BODY, headers, "/api/webhooks/hmac/nonsense"),
        source.post(BODY, headers, "/api/webhooks/hmac"),
        suspended.send(EXPORT),
    ]

    def told(answer: Any) -> Json:
        return {name: value for name, value in answer.json().items() if name not in ("instance", "requestId")}

    assert {answer.status_code for answer in elsewhere} == {401}
    assert all(told(answer) == told(elsewhere[0]) for answer in elsewhere)


@pytest.mark.parametrize(
    ("body", "content_type", "status", "code"),
    [
        (b"{", "application/json", 400, "INVALID_PARAMS"),
        (b"", "application/json", 400, "INVALID_PARAMS"),
        (b'{"a": "\\u0000"}', "application/json", 400, "INVALID_PARAMS"),
        (b"[" * 300 + b"]" * 300, "application/json", 400, "INVALID_PARAMS"),
        (BODY, "text/plain", 415, "UNSUPPORTED_MEDIA_TYPE"),
        (BODY, "", 415, "UNSUPPORTED_MEDIA_TYPE"),
        (b" " * 1_100_000, "application/json", 413, "PAYLOAD_TOO_LARGE"),
        (b" " * 10_500_000, "application/json", 413, "PAYLOAD_TOO_LARGE"),
    ],
    ids=["broken", "empty", "null character", "deep", "text", "unnamed", "1 MB", "10 MB"],
)
def test_what_is_proved_and_cannot_be_used_is_refused_with_its_reason(
    server: Server, source: Source, body: bytes, content_type: str, status: int, code: str
) -> None:
    headers = standard(source.secret, body, "unusable") | {"content-type": content_type}

    refused = source.post(body, headers)

    assert (refused.status_code, refused.json()["code"]) == (status, code)
    assert sql(server, "SELECT FROM webhook_events WHERE event_id = 'unusable'") == []


def test_the_same_event_is_taken_once_whatever_its_time(source: Source) -> None:
    name = uuid4().hex
    first = source.send(EXPORT, name).json()["data"]

    again = [source.send(EXPORT, name).json()["data"], source.send(EXPORT, name, at=time.time() - 60).json()["data"]]

    assert first["duplicate"] is False
    assert again == [{"id": first["id"], "duplicate": True}] * 2


def test_a_plain_webhook_is_known_again_by_what_it_signed(source: Source) -> None:
    named = json.dumps({"id": uuid4().hex, **EXPORT}).encode()
    unnamed = json.dumps({"nonce": uuid4().hex, **EXPORT}).encode()

    for body in (named, unnamed):
        answers = [
            source.post(body, plain(source.secret, body, at=time.time() - late)).json()["data"] for late in (60, 0)
        ]
        assert [answer["duplicate"] for answer in answers] == [False, True]
        assert answers[0]["id"] == answers[1]["id"]


def test_two_secrets_are_live_until_the_older_one_ends(server: Server) -> None:
    source = Source.register(server)
    path = f"/api/webhook-sources/{source.id}"
    first = source.secret

    def taken(secret: str) -> int:
        return source.post(BODY, standard(secret, BODY, uuid4().hex)).status_code

    second = source.admin("POST", f"{path}/rotate", {"grace_s": 600}, 201)
    meanwhile = [taken(first), taken(second["secret"])]
    third = source.admin("POST", f"{path}/rotate", {"grace_s": 0}, 201)

    assert meanwhile == [202, 202]
    assert [taken(first), taken(second["secret"]), taken(third["secret"])] == [401, 401, 202]
    shown = source.admin("GET", path)
    assert [one["until"] for one in shown["secrets"]] == [None]
    assert "secret" not in shown
    assert third["secret"] not in json.dumps(shown)


def test_a_header_may_hold_several_signatures(source: Source) -> None:
    headers = standard(source.secret, BODY, uuid4().hex)
    headers["webhook-signature"] = f"v1,{'A' * 43}= {headers['webhook-signature']} v1a,AAAA"

    assert source.post(BODY, headers).status_code == 202


def test_secrets_of_ones_own_are_taken_and_sealed(server: Server) -> None:
    own = "a-secret-that-the-sender-chose"
    source = Source.register(server, secret=own)

    assert source.post(BODY, plain(own, BODY)).status_code == 202
    [row] = sql(server, "SELECT secrets FROM webhook_sources WHERE id = $1", source.id)
    assert own.encode() not in bytes(row["secrets"])


@pytest.mark.parametrize(
    "given",
    [
        {"provider": "aws"},
        {"provider": "gcp", "audience": "x"},
        {"provider": "aws", "topic_arn": "arn:aws:s3:::bucket"},
        {"provider": "aws", "topic_arn": "arn:aws:sns:eu-west-1:123456789012:costs", "secret": "x" * 20},
        {"provider": "hmac", "topic_arn": "arn:aws:sns:eu-west-1:123456789012:costs"},
        {"provider": "hmac", "secret": "short"},
        {"provider": "hmac", "secret": "whsec_" + "!" * 30},
        {"provider": "smoke"},
        {"provider": "hmac", "account": "two words"},
    ],
)
def test_a_source_that_could_not_be_verified_is_not_registered(source: Source, given: Json) -> None:
    with source.server.client(source.server.token(tenant=source.tenant)) as admin:
        refused = admin.post("/api/webhook-sources", json={"name": "x", **given})

    assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_PARAMS")


def test_a_repeated_registration_makes_one_source_and_shows_no_secret(source: Source) -> None:
    headers, given = {"idempotency-key": uuid4().hex}, {"name": "x", "provider": "hmac"}
    first = source.admin("POST", "/api/webhook-sources", given, 201, headers=headers)

    again = source.admin("POST", "/api/webhook-sources", given, 201, headers=headers)

    assert again == {**first, "secret": None}


def test_a_removed_source_is_unknown_and_a_stale_change_is_refused(server: Server) -> None:
    source = Source.register(server)
    path = f"/api/webhook-sources/{source.id}"
    with server.client(server.token(tenant=source.tenant)) as admin:
        stale = admin.patch(path, json={"name": "new"}, headers={"if-match": '"v9"'})
    changed = source.admin("PATCH", path, {"name": "new"})

    source.admin("DELETE", path)

    assert (stale.status_code, changed["name"], changed["version"]) == (412, "new", 2)
    assert source.send(EXPORT).status_code == 401


@in_one_minute
def test_an_address_that_sends_bad_ones_is_sent_away_and_a_source_has_a_limit_of_its_own() -> None:
    with InProcess({"DRAGOMAN_LIMITS__IP_PER_MIN": "5", "DRAGOMAN_WEBHOOKS__SOURCE_PER_MIN": "10"}) as server:
        source = Source.register(server, tenant="demo")
        good = [source.send(EXPORT).status_code for _ in range(11)]
        bad = [source.post(BODY, {}).status_code for _ in range(6)]
        sent_away = source.send(EXPORT)
        signing = source.post(BODY, {}, f"/api/webhooks/docusign/{uuid4()}")

    assert good == [202] * 10 + [429]
    assert bad == [401] * 5 + [429]
    assert (sent_away.status_code, int(sent_away.headers["retry-after"]) > 0) == (429, True)
    assert signing.status_code == 429
