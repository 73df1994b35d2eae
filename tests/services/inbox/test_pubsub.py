"""Google Pub/Sub: a push is believed by the token of its service account, and by no other."""

import json
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import jwt
import pytest

from tests.harness import InProcess, Server
from tests.issuers import ABSENT, ExternalIssuer, glue, make_key
from tests.services.inbox.senders import Json, Source, base64_of

pytestmark = pytest.mark.req("GW-013")
AUDIENCE, ACCOUNT = "https://dragoman.example/webhooks", "pusher@acme.iam.gserviceaccount.com"
OBJECT = {"eventType": "OBJECT_FINALIZE", "bucketId": "billing", "objectId": "focus/one.csv"}


@pytest.fixture(scope="module")
def google() -> Iterator[ExternalIssuer]:
    with ExternalIssuer() as issuer:
        issuer.add("rsa", "RS256")
        issuer.add("curve", "ES256")
        yield issuer


@pytest.fixture(scope="module")
def server(google: ExternalIssuer) -> Iterator[Server]:
    with InProcess({"DRAGOMAN_WEBHOOKS__GCP_JWKS_URL": f"{google.url}/keys"}) as running:
        yield running


@pytest.fixture(scope="module")
def source(server: Server) -> Source:
    return Source.register(server, "gcp", audience=AUDIENCE, service_account=ACCOUNT)


def token(google: ExternalIssuer, kid: str = "rsa", alg: str = "RS256", **changes: Any) -> str:
    """Return a token as Google issues it, changed."""
    given: Json = {"iss": "https://accounts.google.com", "aud": AUDIENCE, "email": ACCOUNT, "email_verified": True}
    return google.token(kid, alg=alg, **{**given, **changes})


def push(source: Source, bearer: str | None, body: Any = None, message_id: str | None = None) -> Any:
    """Push a message, of Cloud Storage unless another is given."""
    message = {"message": {"messageId": message_id or uuid4().hex, "attributes": OBJECT, "data": base64_of({})}}
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {bearer}"} if bearer else {})
    return source.post(json.dumps(message if body is None else body).encode(), headers)


@pytest.mark.parametrize("issuer", ["https://accounts.google.com", "accounts.google.com"])
def test_a_push_of_the_service_account_is_taken_once(source: Source, google: ExternalIssuer, issuer: str) -> None:
    message_id = uuid4().hex

    taken = [push(source, token(google, iss=issuer), message_id=message_id) for _ in range(2)]

    assert [one.status_code for one in taken] == [202, 202], taken[0].text
    assert [one.json()["data"]["duplicate"] for one in taken] == [False, True]
    shown = source.admin("GET", f"/api/webhook-events/{taken[0].json()['data']['id']}")
    assert (shown["topic"], shown["event_id"]) == ("cost.export_ready", message_id)


def forged(google: ExternalIssuer) -> Json:
    """Return tokens that only look like Google's."""
    now, own = int(time.time()), make_key("RS256")
    claims = {"iss": "https://accounts.google.com", "aud": AUDIENCE, "email": ACCOUNT, "email_verified": True,
              "iat": now, "exp": now + 600, "sub": "1"}  # fmt: skip
    return {
        "none": None,
        "nothing": "",
        "no token": "nonsense",
        "endless": "x" * 9_000,
        "without an algorithm": glue({"alg": "none", "kid": "rsa"}, claims, b""),
        "by the public key": jwt.encode(claims, "secret" * 8, algorithm="HS256", headers={"kid": "rsa"}),
        "by another algorithm": token(google, "curve", "ES256"),
        "by a key of another algorithm": glue({"alg": "RS256", "kid": "curve"}, claims),
        "by another key": jwt.encode(claims, own, algorithm="RS256", headers={"kid": "rsa"}),
        "by an unknown key": jwt.encode(claims, own, algorithm="RS256", headers={"kid": "other"}),
        "another audience": token(google, aud="https://other.example"),
        "another issuer": token(google, iss="https://accounts.example"),
        "another account": token(google, email="mallory@evil.iam.gserviceaccount.com"),
        "not verified": token(google, email_verified=False),
        "verified as text": token(google, email_verified="true"),
        "without an account": token(google, email=ABSENT),
        "expired": token(google, exp=now - 60),
        "from tomorrow": token(google, iat=now + 86_400, nbf=now + 86_400),
        "without an end": token(google, exp=ABSENT),
    }


@pytest.mark.req("GW-206")
def test_a_token_that_is_not_that_of_the_subscription_is_refused(source: Source, google: ExternalIssuer) -> None:
    statuses = {name: push(source, bearer).status_code for name, bearer in forged(google).items()}

    assert statuses == dict.fromkeys(statuses, 401)


@pytest.mark.parametrize("body", [[], {}, {"message": 1}, {"message": {"data": "x"}}, {"message": {"messageId": 7}}])
def test_what_is_no_message_is_invalid(source: Source, google: ExternalIssuer, body: Any) -> None:
    refused = push(source, token(google), body)

    assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_PARAMS")
