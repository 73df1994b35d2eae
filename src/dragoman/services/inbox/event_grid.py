"""Azure Event Grid: a delivery comes with a key, in a header or in the address, that its subscription was given."""

import re
from collections.abc import Sequence
from typing import Any, Final, cast

import orjson

from dragoman.errors import InvalidInput, Unauthenticated
from dragoman.jsontext import parse_json
from dragoman.services.inbox.hmac_senders import check_json, event_id_in, same
from dragoman.services.inbox.ports import Arrival, Delivery, Handshake
from dragoman.services.inbox.secrets import Secret
from dragoman.services.inbox.topics import read_meaning

_HEADERS: Final = ("x-webhook-key", "aeg-sas-key")
_VALIDATION: Final = "Microsoft.EventGrid.SubscriptionValidationEvent"
_ORIGIN: Final = re.compile(r"[A-Za-z0-9.*:_-]{1,200}")
_MOST_EVENTS: Final = 1_000


class EventGridSenders:
    """Verifies deliveries of Event Grid, in its own schema and in that of CloudEvents."""

    def verify(self, delivery: Delivery, held: Sequence[Secret]) -> list[Arrival] | Handshake:
        """Return the events of a delivery, or the answer to a handshake.

        Raises:
            Unauthenticated: it has no live key.
            UnsupportedMedia, InvalidInput: it is no event.
        """
        given = [delivery.headers.get(name) for name in _HEADERS] + [delivery.query.get("key")]
        fits = [same(key, secret.text) for key in given if key for secret in held]
        if not any(fits):
            raise Unauthenticated("the key is that of no live secret")
        if delivery.method == "OPTIONS":
            return _allowed(delivery.headers.get("webhook-request-origin", ""))
        check_json(delivery.headers)
        payload: Any = parse_json(delivery.body)
        events = cast("list[Any]", payload) if isinstance(payload, list) else [payload]
        if not 0 < len(events) <= _MOST_EVENTS or not all(isinstance(event, dict) for event in events):
            raise InvalidInput.of("body", f"must be an event, or a list of 1 to {_MOST_EVENTS}")
        if (code := _validation_code(events)) is not None:
            return Handshake({"validationResponse": code})
        return [_arrival(event) for event in events]


def _allowed(origin: str) -> Handshake:
    """Answer the handshake of CloudEvents (its protection against abuse)."""
    if not _ORIGIN.fullmatch(origin):
        raise InvalidInput.of("WebHook-Request-Origin", "must be the name of the sender")
    return Handshake({}, ((b"webhook-allowed-origin", origin.encode()), (b"webhook-allowed-rate", b"*")))


def _validation_code(events: Sequence[dict[str, Any]]) -> str | None:
    for event in events:
        if event.get("eventType") == _VALIDATION:
            data = event.get("data")
            code = cast("dict[str, Any]", data).get("validationCode") if isinstance(data, dict) else None
            if not isinstance(code, str) or len(code) > 1_000:
                raise InvalidInput.of("data.validationCode", "must be text")
            return code
    return None


def _arrival(event: dict[str, Any]) -> Arrival:
    body = orjson.dumps(event)
    meaning = read_meaning("azure", event)
    return Arrival(event_id_in(event, body), meaning.type, meaning.topic, body)
