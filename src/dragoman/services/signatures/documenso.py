"""Documenso by its API, version 2, and its webhooks."""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final
from urllib.parse import quote

import orjson
from pydantic import BaseModel, ConfigDict, Field

from dragoman.errors import UpstreamUnavailable
from dragoman.services.signatures.line import Json, Line
from dragoman.services.signatures.models import Signer, SignerRole
from dragoman.services.signatures.ports import Event, News, Order, Sent, SignerNews
from dragoman.services.signatures.states import SignerState, Status, further

_HEADER: Final = "x-documenso-secret"
_STATUSES: Final = {
    "DRAFT": Status.CREATED,
    "PENDING": Status.SENT,
    "COMPLETED": Status.COMPLETED,
    "REJECTED": Status.DECLINED,
    "CANCELLED": Status.VOIDED,
}
_EVENTS: Final = {
    "DOCUMENT_SENT": Status.SENT,
    "DOCUMENT_OPENED": Status.DELIVERED,
    "DOCUMENT_SIGNED": Status.SIGNED,
    "DOCUMENT_RECIPIENT_COMPLETED": Status.SIGNED,
    "DOCUMENT_COMPLETED": Status.COMPLETED,
    "DOCUMENT_REJECTED": Status.DECLINED,
    "DOCUMENT_CANCELLED": Status.VOIDED,
}
_SIGNER_STATES: Final = {"SIGNED": SignerState.SIGNED, "REJECTED": SignerState.DECLINED}
_ROLES: Final = {SignerRole.SIGNER: "SIGNER", SignerRole.CC: "CC"}
# Fields stand side by side in the lower margin of the last page; places and sizes are in hundredths of the page.
_COLUMNS, _WIDTH, _HEIGHT, _LEFT, _BOTTOM = 4, 20, 4, 6, 95


class Documenso:
    """One team at Documenso. A draft is an envelope of status DRAFT; our key is its external id."""

    repeatable = False

    def __init__(self, line: Line, api_token: str) -> None:
        self._line = line
        self._headers = {"authorization": api_token}

    async def draft(self, order: Order, key: str) -> str:
        """Create an envelope that is not distributed."""
        name = f"{order.title[:100]}.pdf"
        said = await self._line.ask(
            "POST",
            "/envelope/create",
            headers=self._headers,
            data={"payload": orjson.dumps(_payload(order, key)).decode()},
            files={"files": (name, order.document.content, "application/pdf")},
        )
        return str(said["id"])

    async def find_draft(self, key: str) -> str | None:
        """By our key, among what a search for it finds."""
        said = await self._line.ask("GET", "/envelope", headers=self._headers, params={"query": key, "perPage": "50"})
        found: list[Json] = said.get("data") or []
        return next((str(one["id"]) for one in found if one.get("externalId") == key), None)

    async def send(self, order: Order, ref: str) -> Sent:  # noqa: ARG002 - the envelope has it all
        """Let Documenso write to the signers."""
        await self._line.ask("POST", "/envelope/distribute", headers=self._headers, json={"envelopeId": ref})
        return Sent(Status.SENT)

    async def ask(self, ref: str) -> News | None:
        """The envelope with its recipients."""
        return _news(await self._envelope(ref), Status.CREATED)

    async def void(self, ref: str, reason: str) -> None:
        """Cancel it; a draft, which nobody knows of, is deleted."""
        if (await self._envelope(ref)).status == "DRAFT":
            await self._line.ask("POST", "/envelope/delete", headers=self._headers, json={"envelopeId": ref})
            return
        given = {"envelopeId": ref, "reason": reason}
        await self._line.ask("POST", "/envelope/cancel", headers=self._headers, json=given)

    async def fetch(self, ref: str) -> bytes:
        """Its one document, signed."""
        items = (await self._envelope(ref)).envelopeItems
        if not items:
            raise UpstreamUnavailable("documenso")
        path = f"/envelope/item/{quote(items[0].id, safe='')}/download"
        return await self._line.read(path, headers=self._headers, params={"version": "signed"})

    async def _envelope(self, ref: str) -> "_Envelope":
        said = await self._line.ask("GET", f"/envelope/{quote(ref, safe='')}", headers=self._headers)
        return _Envelope.model_validate(said)


def authentic(keys: Sequence[str], headers: Mapping[str, str], body: bytes) -> bool:  # noqa: ARG001 - it signs nothing
    """Whether a webhook carries one of our secrets, which Documenso sends as they are."""
    shown = headers.get(_HEADER, "").encode()
    return any(hmac.compare_digest(shown, key.encode()) for key in keys)


class _Loose(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Recipient(_Loose):
    email: str = ""
    signingStatus: str = ""  # noqa: N815 - Documenso's name
    readStatus: str = ""  # noqa: N815
    signedAt: datetime | None = None  # noqa: N815
    rejectionReason: str | None = None  # noqa: N815


class _Item(_Loose):
    id: str


class _Envelope(_Loose):
    status: str = ""
    externalId: str | None = None  # noqa: N815
    envelopeId: str | None = None  # noqa: N815
    recipients: list[_Recipient] = []
    envelopeItems: list[_Item] = []  # noqa: N815


class _Webhook(_Loose):
    event: str = ""
    payload: _Envelope = Field(default_factory=_Envelope)


def read_event(body: bytes) -> Event | None:
    """What Documenso tells; None when it is of no concern.

    Raises:
        ValueError: it is not in its form.
    """
    told = _Webhook.model_validate_json(body)
    status = _EVENTS.get(told.event)
    if status is None or (told.payload.externalId is None and told.payload.envelopeId is None):
        return None
    news = _news(told.payload, status)
    news = replace(news, status=further(news.status, status))
    return Event(news, told.payload.envelopeId, told.payload.externalId)


def _news(envelope: _Envelope, otherwise: Status) -> News:
    signers = tuple(
        SignerNews(
            one.email.lower(),
            _SIGNER_STATES.get(one.signingStatus, SignerState.PENDING),
            one.signedAt,
            one.rejectionReason,
        )
        for one in envelope.recipients
    )
    status = _STATUSES.get(envelope.status, otherwise)
    if status is Status.SENT:
        if any(one.state is SignerState.SIGNED for one in signers):
            status = Status.SIGNED
        elif any(one.readStatus == "OPENED" for one in envelope.recipients):
            status = Status.DELIVERED
    return News(status, signers, next((one.reason for one in signers if one.reason), None))


def _payload(order: Order, key: str) -> Json:
    ordered = len({one.order for one in order.signers}) > 1
    signing = [one for one in order.signers if one.role is SignerRole.SIGNER]
    return {
        "type": "DOCUMENT",
        "title": order.title,
        "externalId": key,
        "recipients": [_recipient(order, one, signing) for one in order.signers],
        "meta": {
            "subject": order.title,
            "message": order.message or "",
            "signingOrder": "SEQUENTIAL" if ordered else "PARALLEL",
        },
    }


def _recipient(order: Order, signer: Signer, signing: list[Signer]) -> Json:
    fields: list[Json] = []
    if signer.role is SignerRole.SIGNER:
        row, column = divmod(signing.index(signer), _COLUMNS)
        fields = [
            {
                "type": "SIGNATURE",
                "identifier": 0,
                "page": order.pages,
                "positionX": _LEFT + column * (_WIDTH + 2),
                "positionY": _BOTTOM - row * (_HEIGHT + 1),
                "width": _WIDTH,
                "height": _HEIGHT,
            }
        ]
    return {
        "name": signer.name,
        "email": signer.email,
        "role": _ROLES[signer.role],
        "signingOrder": signer.order,
        "fields": fields,
    }
