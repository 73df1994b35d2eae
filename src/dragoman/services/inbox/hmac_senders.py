"""Senders that share a secret with this server and sign the bytes they send, with the time at which they do.

    Standard Webhooks   webhook-id, webhook-timestamp, webhook-signature: v1,<base64 of HMAC-SHA256 of id.time.body>
    plain               X-Timestamp, X-Signature: sha256=<hex of HMAC-SHA256 of time.body>

Every live secret is tried against every signature, in constant time, and the time counts only once it is signed.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dragoman.errors import Unauthenticated, UnsupportedMedia
from dragoman.jsontext import parse_json
from dragoman.services.inbox.ports import Arrival, Delivery
from dragoman.services.inbox.secrets import Secret
from dragoman.services.inbox.topics import read_meaning

_LONGEST_ID: Final = 200
_MOST_SIGNATURES: Final = 10
_TIME: Final = re.compile(r"[0-9]{1,12}")
_JSON: Final = re.compile(r"application/([a-z0-9.!#$&^_-]+\+)?json", re.IGNORECASE)


class HmacSenders:
    """Verifies what is signed by a shared secret."""

    def __init__(self, tolerance_s: float) -> None:
        self._tolerance_s = tolerance_s

    def verify(self, delivery: Delivery, held: Sequence[Secret], *, now: float) -> list[Arrival]:
        """Return the event of a delivery.

        Raises:
            Unauthenticated: it is not signed by a live secret, or not signed now.
            UnsupportedMedia, InvalidInput: its sender signed something that is no JSON.
        """
        if "webhook-signature" in delivery.headers:
            event_id = self._verify_standard(delivery, held, now)
        else:
            event_id = self._verify_plain(delivery, held, now)
        check_json(delivery.headers)
        payload = parse_json(delivery.body)
        meaning = read_meaning(delivery.provider, payload)
        event_id = event_id or event_id_in(payload, delivery.body)
        return [Arrival(event_id, meaning.type, meaning.topic, delivery.body)]

    def _verify_standard(self, delivery: Delivery, held: Sequence[Secret], now: float) -> str:
        headers = delivery.headers
        event_id, signed_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
        if not 0 < len(event_id) <= _LONGEST_ID or not event_id.isascii() or not event_id.isprintable():
            raise Unauthenticated("the header webhook-id is missing or too long")
        signed = b".".join((event_id.encode(), signed_at.encode("latin-1"), delivery.body))
        versions = headers["webhook-signature"].split(" ")[:_MOST_SIGNATURES]
        given = [version.removeprefix("v1,") for version in versions if version.startswith("v1,")]
        wanted = [base64.b64encode(_mac(secret.key, signed)).decode() for secret in held]
        self._check(given, wanted, signed_at, now)
        return event_id

    def _verify_plain(self, delivery: Delivery, held: Sequence[Secret], now: float) -> None:
        signed_at, given = delivery.headers.get("x-timestamp", ""), delivery.headers.get("x-signature", "")
        if not given.startswith("sha256="):
            raise Unauthenticated("there is no signature")
        signed = signed_at.encode("latin-1") + b"." + delivery.body
        wanted = [_mac(secret.text.encode(), signed).hex() for secret in held]
        self._check([given.removeprefix("sha256=").lower()], wanted, signed_at, now)

    def _check(self, given: Sequence[str], wanted: Sequence[str], signed_at: str, now: float) -> None:
        # All of them, whichever fits: how long it takes says nothing of which secret is near.
        fits = [same(one, another) for one in given for another in wanted]
        if not any(fits):
            raise Unauthenticated("the signature is that of no live secret")
        if not _TIME.fullmatch(signed_at):
            raise Unauthenticated("the timestamp is no time in seconds")
        if abs(now - int(signed_at)) > self._tolerance_s:
            raise Unauthenticated("the timestamp is too old, or in the future")


def same(one: str, another: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), another.encode())


def check_json(headers: Mapping[str, str]) -> None:
    """Refuse a body that its sender does not call JSON.

    Raises:
        UnsupportedMedia: it is called something else.
    """
    given = headers.get("content-type", "")
    if not _JSON.fullmatch(given.partition(";")[0].strip()):
        raise UnsupportedMedia(given[:100], expected="application/json")


def event_id_in(payload: Any, body: bytes) -> str:
    """Return what a sender calls its event, from what it has signed: its `id`, else the hash of it all."""
    named = payload.get("id") if isinstance(payload, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if isinstance(named, str) and 0 < len(named) <= _LONGEST_ID:
        return named
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def _mac(key: bytes, signed: bytes) -> bytes:
    return hmac.digest(key, signed, "sha256")
