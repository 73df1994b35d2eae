"""Azure Event Grid: a key, handshakes that are answered to who has it, and several events in one delivery."""

import json
from typing import Any
from uuid import uuid4

import pytest

from tests.harness import Server
from tests.services.inbox.senders import Json, Source

pytestmark = pytest.mark.req("GW-013")
BLOB = {"eventType": "Microsoft.Storage.BlobCreated", "data": {"url": "https://acme.blob.core.windows.net/b/focus.csv"}}
VALIDATION = [{"id": "v", "eventType": "Microsoft.EventGrid.SubscriptionValidationEvent", "data": {
    "validationCode": "512d38b6", "validationUrl": "https://evil.example/"}}]  # fmt: skip


@pytest.fixture(scope="module")
def source(server: Server) -> Source:
    return Source.register(server, "azure")


def deliver(source: Source, payload: Any, query: str = "", **headers: str) -> Any:
    """Deliver as Event Grid does."""
    given = {"content-type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return source.post(json.dumps(payload).encode(), given, source.path + query)


def test_each_event_of_a_delivery_is_taken_once(source: Source) -> None:
    first, second = {"id": uuid4().hex, **BLOB}, {"id": uuid4().hex, **BLOB}

    both = deliver(source, [first, second], x_webhook_key=source.secret)
    one_more = deliver(source, [second, {"id": uuid4().hex, **BLOB}], aeg_sas_key=source.secret)
    again = deliver(source, [first, second], f"?key={source.secret.replace('+', '%2B')}")

    assert [both.status_code, one_more.status_code, again.status_code] == [202, 202, 202], both.text
    ids = both.json()["data"]["ids"]
    assert one_more.json()["data"]["ids"][0] == ids[1]
    assert again.json()["data"] == {"id": ids[0], "ids": ids, "duplicate": True}
    assert {one["topic"] for one in source.events()} == {"cost.export_ready"}


def test_an_event_of_cloudevents_is_taken(source: Source) -> None:
    event: Json = {"specversion": "1.0", "id": uuid4().hex, "source": "/x", "type": BLOB["eventType"]}
    event["data"] = BLOB["data"]

    taken = deliver(source, event, x_webhook_key=source.secret, content_type="application/cloudevents+json")

    assert taken.status_code == 202, taken.text


def test_the_validation_code_is_answered_to_who_has_the_key(source: Source) -> None:
    right = deliver(source, VALIDATION, x_webhook_key=source.secret)
    wrong = [deliver(source, VALIDATION), deliver(source, VALIDATION, x_webhook_key="x" * 40)]

    assert (right.status_code, right.json()) == (200, {"validationResponse": "512d38b6"})
    assert [one.status_code for one in wrong] == [401, 401]
    assert not any("512d38b6" in one.text for one in wrong)


def test_the_handshake_of_cloudevents_is_answered_to_who_has_the_key(source: Source) -> None:
    asking = {"webhook-request-origin": "eventgrid.azure.net"}
    with source.server.client() as client:
        right = client.options(source.path, headers=asking | {"x-webhook-key": source.secret})
        wrong = client.options(source.path, headers=asking)
        forged = client.options(source.path, headers={"webhook-request-origin": "a b", "x-webhook-key": source.secret})
        other = client.options("/api/webhooks/hmac/x", headers=asking)

    assert (right.status_code, right.headers["webhook-allowed-origin"]) == (200, "eventgrid.azure.net")
    assert [wrong.status_code, forged.status_code, other.status_code] == [401, 400, 405]
    assert "webhook-allowed-origin" not in wrong.headers


@pytest.mark.parametrize("payload", [[], [1], 7, [VALIDATION[0] | {"data": {}}]])
def test_what_is_no_event_is_invalid(source: Source, payload: Any) -> None:
    refused = deliver(source, payload, x_webhook_key=source.secret)

    assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_PARAMS")
