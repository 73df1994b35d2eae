"""What payloads of providers mean: the topic of an event, its type, and its data in the same fields for every provider.

A payload that is not known has the topic `other`: it is stored and shown, and a handler has to ask for that.
Nothing here trusts the shape of a payload: its sender is known, and may be wrong all the same.
"""

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, cast
from urllib.parse import unquote_plus

from dragoman.errors import InvalidInput
from dragoman.jsontext import parse_json
from dragoman.services.inbox.ports import Json

EXPORT_READY: Final = "cost.export_ready"
BUDGET_ALERT: Final = "budget.alert"
OTHER: Final = "other"
_TOPIC: Final = re.compile(r"[a-z][a-z0-9_]{0,49}(\.[a-z][a-z0-9_]{0,49}){1,3}")
_LONGEST: Final = 200
_AMOUNT: Final = re.compile(r"([$€£])?\s*(-?\d[\d,]*(?:\.\d+)?)")
_DECIMAL: Final = re.compile(r"-?\d{1,18}(\.\d{1,18})?")
_SYMBOLS: Final = {"$": "USD", "€": "EUR", "£": "GBP"}


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a payload means."""

    topic: str
    type: str
    data: Json = field(default_factory=dict[str, Any])


def read_meaning(provider: str, payload: Any) -> Meaning:
    """Return what a payload of a provider means."""
    meaning = _READERS.get(provider, _read_plain)(payload)
    return Meaning(meaning.topic, meaning.type[:_LONGEST] or OTHER, meaning.data)


def read_data(provider: str, payload: Any) -> Json:
    """Return the data of an event, from what was stored of it."""
    return read_meaning(provider, payload).data


def _read_plain(payload: Any) -> Meaning:
    """A sender of one's own names the topic itself: `{"type": "cost.export_ready", "data": {...}}`."""
    given = _object(payload)
    kind = _text(given.get("type")) or _text(given.get("event"))
    topic = kind if _TOPIC.fullmatch(kind) else OTHER
    return Meaning(topic, kind, _object(given.get("data")))


def _read_aws(payload: Any) -> Meaning:
    """The message of an SNS notification: from S3, EventBridge, AWS Budgets, or anything else."""
    notification = _object(payload)
    text, subject = _text(notification.get("Message")), _text(notification.get("Subject"))
    message = _json(text)
    if objects := [*_s3_objects(message)]:
        return Meaning(EXPORT_READY, "s3.object_created", {"objects": objects})
    if subject.startswith("AWS Budgets:") or text.startswith("AWS Budget Notification"):
        return Meaning(BUDGET_ALERT, "aws.budget", _aws_budget(subject, text))
    kind = _text(message.get("detail-type")) or subject or _text(notification.get("Type"))
    return Meaning(OTHER, kind, message)


def _s3_objects(message: Json) -> Iterator[Json]:
    for record in map(_object, _list(message.get("Records"))):
        if _text(record.get("eventSource")) == "aws:s3" and _text(record.get("eventName")).startswith("ObjectCreated"):
            # S3 writes keys as forms do; EventBridge does not.
            s3 = _object(record.get("s3"))
            key = unquote_plus(_text(_object(s3.get("object")).get("key")))
            yield _stored("s3", _text(_object(s3.get("bucket")).get("name")), key)
    if _text(message.get("source")) == "aws.s3" and _text(message.get("detail-type")) == "Object Created":
        detail = _object(message.get("detail"))
        bucket, key = _object(detail.get("bucket")), _object(detail.get("object"))
        yield _stored("s3", _text(bucket.get("name")), _text(key.get("key")))


def _aws_budget(subject: str, text: str) -> Json:
    """AWS Budgets writes to people: a line for each field."""
    lines = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    kind = lines.get("Alert Type", "ACTUAL").strip().upper()
    amount, currency = _amount(lines.get(f"{kind} Amount", ""))
    limit, of_limit = _amount(lines.get("Budgeted Amount", ""))
    threshold, _ = _amount(lines.get("Alert Threshold", ""))
    percent = threshold if "%" in lines.get("Alert Threshold", "") else _percent(threshold, limit)
    return {
        "budget": lines.get("Budget Name", subject.removeprefix("AWS Budgets:")).strip()[:_LONGEST],
        "amount": amount,
        "limit": limit,
        "threshold_percent": percent,
        "currency": currency or of_limit,
        "forecast": kind == "FORECASTED",
    }


def _read_gcp(payload: Any) -> Meaning:
    """A message of Pub/Sub: from Cloud Storage, a budget, or anything else."""
    message = _object(_object(payload).get("message"))
    attributes, data = _object(message.get("attributes")), _decoded(message.get("data"))
    kind = _text(attributes.get("eventType"))
    if kind == "OBJECT_FINALIZE":
        stored = _stored("gs", _text(attributes.get("bucketId")), _text(attributes.get("objectId")))
        return Meaning(EXPORT_READY, kind, {"objects": [stored]})
    if "budgetId" in attributes:
        return _gcp_budget(attributes, data)
    return Meaning(OTHER, kind or _text(data.get("type")), data)


def _gcp_budget(attributes: Json, data: Json) -> Meaning:
    """A budget of Google Cloud tells its state several times a day; it is an alert once a threshold is passed."""
    actual, forecast = data.get("alertThresholdExceeded"), data.get("forecastThresholdExceeded")
    if actual is None and forecast is None:
        return Meaning("budget.status", "gcp.budget", data)
    told: Json = {
        "budget": _text(data.get("budgetDisplayName")) or _text(attributes.get("budgetId")),
        "amount": _number(data.get("costAmount")),
        "limit": _number(data.get("budgetAmount")),
        "threshold_percent": _percent(_number(actual if actual is not None else forecast), "1"),
        "currency": _text(data.get("currencyCode")),
        "forecast": actual is None,
    }
    return Meaning(BUDGET_ALERT, "gcp.budget", told)


def _read_azure(payload: Any) -> Meaning:
    """An event of Event Grid in either schema, or a notification of a budget."""
    event = _object(payload)
    data = _object(event.get("data"))
    kind = _text(event.get("eventType")) or _text(event.get("type"))
    if kind == "Microsoft.Storage.BlobCreated":
        url = _text(data.get("url"))
        return Meaning(EXPORT_READY, kind, {"objects": [{"url": url, "key": url.rpartition("/")[2]}]})
    if _text(event.get("schemaId")) == "AIP Budget Notification" or "BudgetName" in data:
        told: Json = {
            "budget": _text(data.get("BudgetName")),
            "amount": _number(data.get("SpendingAmount")),
            "limit": _number(data.get("Budget")),
            "threshold_percent": _percent(
                _number(data.get("NotificationThresholdAmount")), _number(data.get("Budget"))
            ),
            "currency": _text(data.get("Unit")),
            "forecast": False,
        }
        return Meaning(BUDGET_ALERT, "azure.budget", told)
    return Meaning(OTHER, kind, data)


_READERS: Final[dict[str, Callable[[Any], Meaning]]] = {"aws": _read_aws, "gcp": _read_gcp, "azure": _read_azure}


def _stored(scheme: str, bucket: str, key: str) -> Json:
    return {"url": f"{scheme}://{bucket}/{key}", "bucket": bucket, "key": key}


def _object(value: Any) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> str | None:
    """Amounts stay text: what JSON says is not made a float of ours and back."""
    if isinstance(value, bool):
        return None
    return str(value) if isinstance(value, int | float | str) and _DECIMAL.fullmatch(str(value)) else None


def _amount(text: str) -> tuple[str | None, str]:
    found = _AMOUNT.search(text)
    return (found[2].replace(",", ""), _SYMBOLS.get(found[1] or "", "")) if found else (None, "")


def _percent(part: str | None, whole: str | None) -> str | None:
    """Return what part of a whole is, in percent to a hundredth."""
    if part is None or whole is None or not (of := Decimal(whole)):
        return None
    return f"{(Decimal(part) * 100 / of):.2f}"


def _json(text: str) -> Json:
    try:
        return _object(parse_json(text.encode()))
    except (InvalidInput, UnicodeEncodeError):
        return {}


def _decoded(value: Any) -> Json:
    try:
        return _object(parse_json(base64.b64decode(_text(value), validate=True)))
    except (InvalidInput, ValueError):  # of a text that is not ASCII no more is said than that
        return {}
