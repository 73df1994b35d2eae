"""Amazon SNS: a message is signed by a certificate that lies at Amazon, and says itself where.

So the address of the certificate is believed only at the host of SNS in the region of the topic, by https and without a
redirect, and it is asked for only when the message names the topic of the source.
"""

import base64
import binascii
from collections import OrderedDict, deque
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import httpx
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from dragoman.errors import InvalidInput, Unauthenticated, UpstreamUnavailable
from dragoman.infra.outbound import OutboundRefused, TenantClients
from dragoman.jsontext import parse_json
from dragoman.services.inbox.ports import Arrival, Delivery, Handshake
from dragoman.services.inbox.topics import read_meaning

_SIGNED: Final = {
    "Notification": ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"),
    "SubscriptionConfirmation": ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"),
    "UnsubscribeConfirmation": ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"),
}
_HASHES: Final[dict[str, hashes.HashAlgorithm]] = {"1": hashes.SHA1(), "2": hashes.SHA256()}  # noqa: S303 - SNS version 1
# SNS goes on for hours with what it could not deliver, and the time of the message stays that of its first attempt.
# Repetitions are known by their id for longer.
_OLDEST_S: Final = 86_400
_MOST_CERTIFICATES: Final = 100
_MOST_FETCHES_PER_MIN: Final = 30
_LONGEST_ID: Final = 200


class SnsSenders:
    """Verifies messages of SNS. `stand_ins` are hosts that are asked like those of Amazon, for tests and LocalStack."""

    def __init__(self, clients: TenantClients, *, tolerance_s: float, stand_ins: Sequence[str]) -> None:
        self._clients = clients
        self._tolerance_s = tolerance_s
        self._stand_ins = frozenset(stand_ins)
        self._certificates: OrderedDict[str, x509.Certificate] = OrderedDict()
        self._fetched: deque[float] = deque()

    async def verify(
        self, delivery: Delivery, tenant: UUID, topic_arn: str, *, now: float
    ) -> list[Arrival] | Handshake:
        """Return the event of a message; a request to confirm the subscription of this topic is confirmed.

        Raises:
            Unauthenticated: it is not from this topic, or not signed by SNS.
            UpstreamUnavailable: the certificate, or the confirmation, cannot be had now.
        """
        message = _read(delivery.body)
        if message.get("TopicArn") != topic_arn:
            raise Unauthenticated("the message is that of another topic")
        kind = message.get("Type", "")
        signed = _canonical(message, kind)
        algorithm = _HASHES.get(message.get("SignatureVersion", ""))
        if algorithm is None:
            raise Unauthenticated("the version of the signature is not known")
        address = message.get("SigningCertURL", "")
        self._check_address(address, topic_arn, suffix=".pem")
        certificate = await self._certificate(address, tenant, now)
        _check_signature(certificate, message.get("Signature", ""), signed, algorithm, now)
        self._check_age(message.get("Timestamp", ""), now)
        if kind == "SubscriptionConfirmation":
            await self._confirm(message, tenant, topic_arn)
            return Handshake({"confirmed": topic_arn})
        meaning = read_meaning("aws", message)
        return [Arrival(message["MessageId"][:_LONGEST_ID], meaning.type, meaning.topic, delivery.body)]

    def _check_address(self, address: str, topic_arn: str, *, suffix: str = "") -> None:
        """Refuse an address that is not one of SNS in the region of the topic."""
        try:
            parts = urlsplit(address)
            port = parts.port
        except ValueError:
            raise Unauthenticated("an address in the message cannot be read") from None
        _, partition, _, region, *_ = topic_arn.split(":")
        domain = "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com"
        own = parts.scheme == "https" and parts.netloc == f"sns.{region}.{domain}" and port is None
        stand_in = parts.scheme in ("http", "https") and parts.netloc in self._stand_ins
        if not (own or stand_in) or not parts.path.endswith(suffix) or "\\" in address or not address.isprintable():
            raise Unauthenticated("an address in the message is not one of SNS in the region of the topic")

    async def _certificate(self, address: str, tenant: UUID, now: float) -> x509.Certificate:
        if (known := self._certificates.get(address)) is not None:
            self._certificates.move_to_end(address)
            return known
        # Anybody can name an address that nobody has asked for yet: it costs a request, so there are only so many.
        while self._fetched and self._fetched[0] < now - 60:
            self._fetched.popleft()
        if len(self._fetched) >= _MOST_FETCHES_PER_MIN:
            raise UpstreamUnavailable("the certificates of SNS", retry_after_s=60)
        self._fetched.append(now)
        response = await self._get(address, tenant, "the certificates of SNS")
        try:
            found = x509.load_pem_x509_certificate(response.content)
        except ValueError:
            raise Unauthenticated("there is no certificate at the address in the message") from None
        self._certificates[address] = found
        if len(self._certificates) > _MOST_CERTIFICATES:
            self._certificates.popitem(last=False)
        return found

    async def _get(self, address: str, tenant: UUID, what: str) -> httpx.Response:
        """Ask for an address of SNS; no redirect leads away from there."""
        try:
            response = await self._clients.of(tenant).get(address, follow_redirects=False)
        except OutboundRefused as error:
            raise Unauthenticated(f"an address in the message may not be reached: {error.message}") from None
        except httpx.HTTPError as error:
            raise UpstreamUnavailable(what) from error
        if response.status_code >= 500:
            raise UpstreamUnavailable(what)
        if response.status_code != 200:
            raise Unauthenticated(f"an address in the message answers {response.status_code}")
        return response

    async def _confirm(self, message: dict[str, str], tenant: UUID, topic_arn: str) -> None:
        address = message.get("SubscribeURL", "")
        self._check_address(address, topic_arn)
        asked = parse_qs(urlsplit(address).query)
        if asked.get("Action") != ["ConfirmSubscription"] or asked.get("TopicArn") != [topic_arn]:
            raise Unauthenticated("the address of the confirmation is that of something else")
        await self._get(address, tenant, "the subscriptions of SNS")

    def _check_age(self, timestamp: str, now: float) -> None:
        try:
            at = datetime.fromisoformat(timestamp).timestamp()
        except ValueError:
            raise Unauthenticated("the timestamp cannot be read") from None
        if not now - _OLDEST_S <= at <= now + self._tolerance_s:
            raise Unauthenticated("the timestamp is too old, or in the future")


def _read(body: bytes) -> dict[str, str]:
    """Return the fields of a message that are text. Where its signature lies is said in it, so it has to be read."""
    try:
        payload: Any = parse_json(body)
    except InvalidInput:
        raise Unauthenticated("the message is not JSON") from None
    fields = cast("dict[str, Any]", payload) if isinstance(payload, dict) else {}
    return {name: value for name, value in fields.items() if isinstance(value, str)}


def _canonical(message: dict[str, str], kind: str) -> bytes:
    names = _SIGNED.get(kind)
    if names is None:
        raise Unauthenticated("the message is of no type that SNS has")
    # A subject that is absent is left out; everything else has to be there.
    if missing := [name for name in names if name not in message and name != "Subject"]:
        raise Unauthenticated(f"the message has no {missing[0]}")
    return "".join(f"{name}\n{message[name]}\n" for name in names if name in message).encode("utf-8", "replace")


def _check_signature(
    certificate: x509.Certificate, signature: str, signed: bytes, algorithm: hashes.HashAlgorithm, now: float
) -> None:
    key = certificate.public_key()
    moment = datetime.fromtimestamp(now, UTC)
    if not certificate.not_valid_before_utc <= moment <= certificate.not_valid_after_utc:
        raise Unauthenticated("the certificate is out of its time")
    if not isinstance(key, rsa.RSAPublicKey):
        raise Unauthenticated("the certificate has no RSA key")
    try:
        key.verify(base64.b64decode(signature, validate=True), signed, padding.PKCS1v15(), algorithm)
    except (InvalidSignature, binascii.Error, ValueError):
        raise Unauthenticated("the signature is not that of the certificate") from None
