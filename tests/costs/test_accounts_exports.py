"""Reaching the exports of an account, in a bucket and by https: what works, and what a test says when it does not."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.backstage import add_tenant
from tests.costs.fake_s3 import FakeStore, fake_s3
from tests.doors.rest.calling import data, problem
from tests.harness import InProcess, Server

pytestmark = pytest.mark.req("GW-005")
ACCOUNTS = "/api/cloud-accounts"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with InProcess({"DRAGOMAN_OUTBOUND__ALLOW": "127.0.0.1"}) as running:
        yield running


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    with server.client(server.token(role="operator", tenant=add_tenant(server))) as client:
        yield client


@pytest.fixture
def store() -> Iterator[FakeStore]:
    with fake_s3(objects={"acme": {"focus/a.csv": b"a", "focus/b.csv.gz": b"b", "focus/notes.txt": b"c"}}) as made:
        yield made


def make(http: httpx.Client, config: dict[str, Any], secret: Any = None) -> dict[str, Any]:
    given: dict[str, Any] = {"provider": "aws", "identifier": str(uuid4().int)[:12], "name": "A", "config": config}
    if secret is not None:
        given["credential"] = {"secret": secret if isinstance(secret, str) else json.dumps(secret)}
    return data(http.post(ACCOUNTS, json=given), 201)


def bucket(store: FakeStore, **more: Any) -> dict[str, Any]:
    return {"export_url": "s3://acme/focus/", "endpoint": store.url, "region": store.region, **more}


def verdict(http: httpx.Client, account: dict[str, Any]) -> dict[str, Any]:
    return data(http.post(f"{ACCOUNTS}/{account['id']}/test", json={}))


def test_a_temporary_key_opens_a_bucket_too(http: httpx.Client, store: FakeStore) -> None:
    store.session_token = "a+token/with=signs"

    found = verdict(http, make(http, bucket(store), store.secret))

    assert (found["status"], found["credential_status"], found["last_error"]) == ("active", "valid", None)


@pytest.mark.parametrize(
    ("wrong", "said", "credential"),
    [
        ({"access_key_id": "AKNOBODY"}, "InvalidAccessKeyId", "error"),
        ({"secret_access_key": "another"}, "SignatureDoesNotMatch", "error"),
        ({"session_token": "stolen"}, "InvalidToken", "error"),
    ],
)
def test_a_wrong_key_is_told_apart(
    http: httpx.Client, store: FakeStore, wrong: dict[str, str], said: str, credential: str
) -> None:
    found = verdict(http, make(http, bucket(store), store.secret | wrong))

    assert said in found["last_error"]
    assert (found["passed"], found["status"], found["credential_status"]) == (False, "error", credential)
    assert [(check["name"], check["passed"]) for check in found["checks"]] == [("credential", True), ("exports", False)]


@pytest.mark.parametrize(
    ("status", "code", "said", "credential"),
    [
        (400, "ExpiredToken", "expired", "expired"),
        (403, "AccessDenied", "s3:ListBucket", "error"),
        (404, "NoSuchBucket", "no such bucket", "unverified"),
        (301, "PermanentRedirect", "region eu-central-1", "unverified"),
        (503, "SlowDown", "503", "unverified"),
        (403, "<script>", "403", "error"),
    ],
)
def test_what_a_store_refuses_is_said_clearly(
    http: httpx.Client, store: FakeStore, status: int, code: str, said: str, credential: str
) -> None:
    store.refusal = (status, code)

    found = verdict(http, make(http, bucket(store), store.secret))

    assert said in found["last_error"]
    assert "<script>" not in str(found)
    assert (found["status"], found["credential_status"]) == ("error", credential)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"<html></html>",
        b"\xff\xfe",
        b"<!DOCTYPE a [<!ENTITY b 'c'>]><ListBucketResult>&b;</ListBucketResult>",
        b"<ListBucketResult>" + b" " * 3_000_000 + b"</ListBucketResult>",
    ],
)
def test_an_answer_that_is_no_listing_is_refused(http: httpx.Client, store: FakeStore, body: bytes) -> None:
    store.body = body

    found = verdict(http, make(http, bucket(store), store.secret))

    assert (found["passed"], found["status"]) == (False, "error")


@pytest.mark.parametrize("secret", ["plain", "[]", "{}", '{"access_key_id": 5, "secret_access_key": "b"}',
                                    '{"access_key_id": "a\\r\\nx: y", "secret_access_key": "b"}'])  # fmt: skip
def test_a_credential_of_another_form_is_refused_without_being_repeated(
    http: httpx.Client, store: FakeStore, secret: str
) -> None:
    found = verdict(http, make(http, bucket(store), secret))

    assert (found["passed"], found["credential_status"]) == (False, "error")
    assert store.requests == []


def test_a_bucket_without_a_credential_is_not_asked(http: httpx.Client, store: FakeStore) -> None:
    found = verdict(http, make(http, bucket(store)))

    assert (found["passed"], found["credential_status"], store.requests) == (False, "missing", [])


@pytest.mark.parametrize("url", ["https://127.0.0.2/focus.csv", "http://127.0.0.2/focus.csv",
                                 "https://[::1]/focus.csv", "https://169.254.169.254/latest/meta-data"])  # fmt: skip
def test_the_servers_own_network_is_not_reached(http: httpx.Client, url: str) -> None:
    found = verdict(http, make(http, {"export_url": url}))

    assert "refused" in found["last_error"]


def test_a_file_by_https_is_found_with_a_bearer_token_or_a_signed_query(http: httpx.Client, store: FakeStore) -> None:
    store.web["/focus.csv"] = (200, {"etag": '"1"'}, b"a")
    plain = verdict(http, make(http, {"export_url": f"{store.url}/focus.csv"}))
    bearer = verdict(http, make(http, {"export_url": f"{store.url}/focus.csv"}, {"bearer_token": "t0k3n"}))
    seen = store.seen[-1]
    signed = verdict(http, make(http, {"export_url": f"{store.url}/focus.csv"}, {"query": "?sv=1&sig=a%2Bb%3D"}))

    assert [one["passed"] for one in (plain, bearer, signed)] == [True] * 3
    assert (plain["credential_status"], bearer["credential_status"]) == ("missing", "valid")
    assert seen["authorization"] == "Bearer t0k3n"
    assert store.requests[-1] == "/focus.csv?sv=1&sig=a%2Bb%3D"


@pytest.mark.parametrize(
    ("status", "said"),
    [(401, "without a credential"), (404, "no file"), (302, "redirects"), (500, "500"), (206, "206")],
)
def test_a_file_that_is_not_given_is_said_clearly(http: httpx.Client, store: FakeStore, status: int, said: str) -> None:
    store.web["/focus.csv"] = (status, {"location": "http://127.0.0.1:1/"}, b"")

    found = verdict(http, make(http, {"export_url": f"{store.url}/focus.csv"}))

    assert said in found["last_error"]
    assert len(store.requests) == 1


def test_a_host_that_is_away_is_said_to_be(http: httpx.Client) -> None:
    found = verdict(http, make(http, {"export_url": "http://127.0.0.1:9/focus.csv"}))

    assert "cannot be reached" in found["last_error"]


def test_an_account_without_exports_is_tested_by_its_credential_alone(http: httpx.Client) -> None:
    found = verdict(http, make(http, {}, "secret"))

    assert (found["passed"], found["status"], found["credential_status"]) == (True, "active", "unverified")
    assert [check["name"] for check in found["checks"]] == ["credential"]


def test_a_test_changes_no_version_and_a_disconnected_account_stays_so(http: httpx.Client, store: FakeStore) -> None:
    account = make(http, bucket(store), store.secret)
    place = f"{ACCOUNTS}/{account['id']}"
    data(http.patch(place, json={"status": "disconnected"}))

    found = verdict(http, account)

    assert (found["passed"], found["status"], found["version"]) == (True, "disconnected", 2)


def test_another_tenants_account_is_not_tested(server: Server, http: httpx.Client) -> None:
    account = make(http, {})

    with server.client(server.token(tenant=add_tenant(server))) as rival:
        problem(rival.post(f"{ACCOUNTS}/{account['id']}/test", json={}), 404, "NOT_FOUND")
    assert data(http.get(f"{ACCOUNTS}/{account['id']}")) == account
