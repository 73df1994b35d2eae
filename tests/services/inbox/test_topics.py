"""What payloads of providers mean: the same topic and the same fields, and nothing that breaks on another shape."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.services.inbox.topics import read_meaning
from dragoman.services.inbox.worker import Patience
from tests.services.inbox.senders import base64_of

AWS_BUDGET = """AWS Budget Notification November 19, 2026
AWS Account 123456789012

Dear AWS Customer,

You requested that we alert you when the ACTUAL Cost associated with your Production budget exceeds $800.00.

Budget Name: Production
Budget Type: Cost
Budgeted Amount: $1,000.00
Alert Type: ACTUAL
Alert Threshold: > $800.00
ACTUAL Amount: $845.17
"""


def sns(message: Any, subject: str | None = None) -> Any:
    text = message if isinstance(message, str) else json.dumps(message)
    return {"Type": "Notification", "Message": text} | ({"Subject": subject} if subject else {})


def pushed(data: Any, **attributes: str) -> Any:
    return {"message": {"messageId": "1", "attributes": attributes, "data": base64_of(data)}}


S3 = {"eventSource": "aws:s3", "eventName": "ObjectCreated:CompleteMultipartUpload",
      "s3": {"bucket": {"name": "billing"}, "object": {"key": "focus/a+b%2F1.csv"}}}  # fmt: skip
BRIDGE = {"source": "aws.s3", "detail-type": "Object Created",
          "detail": {"bucket": {"name": "billing"}, "object": {"key": "focus/a b"}}}  # fmt: skip


@pytest.mark.parametrize(
    ("provider", "payload", "url"),
    [
        ("aws", sns({"Records": [S3]}), "s3://billing/focus/a b/1.csv"),
        ("aws", sns(BRIDGE), "s3://billing/focus/a b"),
        ("gcp", pushed({}, eventType="OBJECT_FINALIZE", bucketId="b", objectId="o/1"), "gs://b/o/1"),
        ("azure", {"eventType": "Microsoft.Storage.BlobCreated", "data": {"url": "https://x/b/1"}}, "https://x/b/1"),
        ("azure", {"type": "Microsoft.Storage.BlobCreated", "data": {"url": "https://x/b/1"}}, "https://x/b/1"),
    ],
    ids=["s3", "eventbridge", "gcs", "event grid", "cloudevents"],
)
def test_a_new_object_of_each_provider_is_an_export(provider: str, payload: Any, url: str) -> None:
    meaning = read_meaning(provider, payload)

    assert meaning.topic == "cost.export_ready"
    assert [one["url"] for one in meaning.data["objects"]] == [url]


@pytest.mark.parametrize(
    ("provider", "payload", "expected"),
    [
        (
            "aws",
            sns(AWS_BUDGET, "AWS Budgets: Production has exceeded your alert threshold"),
            ("Production", "845.17", "1000.00", "80.00", "USD"),
        ),
        (
            "gcp",
            pushed(
                {"budgetDisplayName": "Team", "costAmount": 100.01, "budgetAmount": 100.00, "currencyCode": "EUR",
                 "alertThresholdExceeded": 1.0},
                budgetId="b", schemaVersion="1.0",
            ),
            ("Team", "100.01", "100.0", "100.00", "EUR"),
        ),
        (
            "azure",
            {"schemaId": "AIP Budget Notification", "data": {"BudgetName": "Sub", "SpendingAmount": "100.5", "Budget":
             "200", "NotificationThresholdAmount": "80", "Unit": "USD"}},
            ("Sub", "100.5", "200", "40.00", "USD"),
        ),
    ],
    ids=["aws", "gcp", "azure"],
)  # fmt: skip
def test_a_budget_of_each_provider_is_an_alert(provider: str, payload: Any, expected: tuple[str, ...]) -> None:
    meaning = read_meaning(provider, payload)

    names = ("budget", "amount", "limit", "threshold_percent", "currency")
    assert (meaning.topic, tuple(meaning.data[name] for name in names)) == ("budget.alert", expected)


def test_a_budget_of_google_below_its_thresholds_is_no_alert() -> None:
    payload = pushed({"budgetDisplayName": "Team", "costAmount": 1}, budgetId="b")

    assert read_meaning("gcp", payload).topic == "budget.status"


@pytest.mark.parametrize("kind", ["Cost.Export", "x", "a" * 300, "a.b\n", "../x.y", 7, None])
def test_a_sender_of_ones_own_names_topics_in_one_form_only(kind: Any) -> None:
    assert read_meaning("hmac", {"type": kind, "data": []}).topic == "other"


_NAMES = ["Message", "Records", "s3", "bucket", "message", "attributes", "data", "type", "eventType"]
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(_NAMES), inner),
)


@example(provider="gcp", payload={"message": {"data": "\x80"}})
@given(provider=st.sampled_from(["aws", "gcp", "azure", "hmac", "k8s"]), payload=_VALUES)
def test_no_payload_breaks_the_reading(provider: str, payload: Any) -> None:
    meaning = read_meaning(provider, payload)

    assert meaning.topic
    assert 0 < len(meaning.type) <= 200


def test_the_waits_between_attempts_double_up_to_a_bound() -> None:
    patience = Patience(retries=3, base_s=1, most_s=5)

    waits = [[patience.wait_s(attempt) for _ in range(50)] for attempt in (1, 2, 3, 4, 1000)]

    for longest_s, drawn in zip((1, 2, 4, 5, 5), waits, strict=True):
        assert all(longest_s / 2 <= wait_s <= longest_s for wait_s in drawn)
