"""DocuSign by its eSignature REST API, version 2.1, and Connect, its webhooks."""

import base64
import hmac
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, urlsplit

import jwt
from pydantic import BaseModel, ConfigDict, Field

from dragoman.errors import InvalidInput
from dragoman.services.signatures.line import Json, Line
from dragoman.services.signatures.models import Signer, SignerRole
from dragoman.services.signatures.ports import Event, News, Order, Sent, SignerNews
from dragoman.services.signatures.states import SignerState, Status, further

_KEY_FIELD: Final = "dragomanKey"
_DOCUMENT_ID: Final = "1"
_HEADER: Final = "x-docusign-signature-"
_MOST_SIGNATURES: Final = 100
_LOOK_BACK: Final = timedelta(days=90)
_SPARE_S: Final = 60.0
_SUBJECT_CHARS, _REASON_CHARS = 100, 200
# Where signature fields go, in points from the upper left corner: rows of three above the lower edge of the last page.
_COLUMNS, _ROW_PT, _SIDE_PT, _LOWER_PT, _DATE_BELOW_PT = 3, 64, 36, 72, 44
_STATUSES: Final = {
    **{status.value: status for status in Status},
    "correct": Status.SENT,
    "timedout": Status.VOIDED,
    "deleted": Status.VOIDED,
}
_EVENTS: Final = {
    "envelope-sent": Status.SENT,
    "envelope-delivered": Status.DELIVERED,
    "envelope-completed": Status.COMPLETED,
    "envelope-declined": Status.DECLINED,
    "envelope-voided": Status.VOIDED,
    "recipient-delivered": Status.DELIVERED,
    "recipient-completed": Status.SIGNED,
}
_SIGNER_STATES: Final = {
    "completed": SignerState.SIGNED,
    "signed": SignerState.SIGNED,
    "declined": SignerState.DECLINED,
}


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token is asked for with: the JWT grant of DocuSign's account server."""

    integration_key: str
    user_id: str
    private_key: str = field(repr=False)
    auth_url: str

    def assertion(self, *, now_s: int) -> str:
        """Who we are, signed with our key.

        Raises:
            InvalidInput: the key is none.
        """
        claims = {
            "iss": self.integration_key,
            "sub": self.user_id,
            "aud": urlsplit(self.auth_url).netloc,
            "iat": now_s,
            "exp": now_s + 3600,
            "scope": "signature impersonation",
        }
        try:
            return jwt.encode(claims, self.private_key, algorithm="RS256")
        except (ValueError, TypeError, jwt.PyJWTError):
            raise InvalidInput.of("credential.private_key", "must be an RSA key in PEM") from None


class Tokens:
    """Bearer tokens, by configuration: given ones as they are, granted ones until shortly before they expire."""

    def __init__(self) -> None:
        self._granted: dict[str, tuple[str, float]] = {}

    async def get(self, name: str, line: Line, grant: Grant) -> str:
        """A token that is still good."""
        kept = self._granted.get(name)
        if kept is not None and kept[1] > time.time():
            return kept[0]
        form = {
            "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
            "assertion": grant.assertion(now_s=int(time.time())),
        }
        said = await line.ask("POST", "/oauth/token", data=form)
        token = str(said.get("access_token", ""))
        self._granted[name] = (token, time.time() + float(said.get("expires_in", 0)) - _SPARE_S)
        return token


class DocuSign:
    """One account at DocuSign. A draft is an envelope of status `created`; it carries our key in a custom field."""

    repeatable = False

    def __init__(
        self, line: Line, account_id: str, *, access_token: str | None, grant: "GrantedToken | None" = None
    ) -> None:
        self._line = line
        self._envelopes = f"/v2.1/accounts/{quote(account_id, safe='')}/envelopes"
        self._recycle_bin = f"/v2.1/accounts/{quote(account_id, safe='')}/folders/recyclebin"
        self._access_token = access_token
        self._grant = grant

    async def draft(self, order: Order, key: str) -> str:
        """Create an envelope that is not sent."""
        said = await self._ask("POST", self._envelopes, json=_definition(order, key))
        return str(said["envelopeId"])

    async def find_draft(self, key: str) -> str | None:
        """By our key in its custom field."""
        since = (datetime.now(UTC) - _LOOK_BACK).isoformat()
        wanted = {"from_date": since, "custom_field": f"{_KEY_FIELD}={key}", "count": "1"}
        said = await self._ask("GET", self._envelopes, params=wanted)
        found: list[Json] = said.get("envelopes") or []
        return str(found[0]["envelopeId"]) if found else None

    async def send(self, order: Order, ref: str) -> Sent:  # noqa: ARG002 - the envelope has it all
        """Let DocuSign write to the signers."""
        await self._ask("PUT", self._envelope(ref), json={"status": "sent"})
        return Sent(Status.SENT)

    async def ask(self, ref: str) -> News | None:
        """The envelope with its recipients."""
        said = await self._ask("GET", self._envelope(ref), params={"include": "recipients"})
        return _news(_Summary.model_validate(said), Status.CREATED)

    async def void(self, ref: str, reason: str) -> None:
        """Void it; a draft, which cannot be voided, goes into the bin."""
        news = await self.ask(ref)
        if news is not None and news.status is Status.CREATED:
            await self._ask("PUT", self._recycle_bin, json={"envelopeIds": [ref]})
            return
        given = {"status": "voided", "voidedReason": reason[:_REASON_CHARS]}
        await self._ask("PUT", self._envelope(ref), json=given)

    async def fetch(self, ref: str) -> bytes:
        """All its documents as one PDF."""
        return await self._line.read(f"{self._envelope(ref)}/documents/combined", headers=await self._headers())

    def _envelope(self, ref: str) -> str:
        return f"{self._envelopes}/{quote(ref, safe='')}"

    async def _ask(self, method: str, path: str, **options: Any) -> Json:
        return await self._line.ask(method, path, headers=await self._headers(), **options)

    async def _headers(self) -> dict[str, str]:
        token = await self._grant.get() if self._grant is not None else self._access_token
        return {"authorization": f"Bearer {token}"}


@dataclass(frozen=True, slots=True)
class GrantedToken:
    """The token of one configuration."""

    tokens: Tokens
    name: str
    line: Line
    grant: Grant

    async def get(self) -> str:
        """A token that is still good."""
        return await self.tokens.get(self.name, self.line, self.grant)


def authentic(keys: Sequence[str], headers: Mapping[str, str], body: bytes) -> bool:
    """Whether a webhook carries an HMAC-SHA256 of its bytes with one of our keys; Connect sends one for each of its."""
    given = [headers.get(f"{_HEADER}{number}", "") for number in range(1, _MOST_SIGNATURES + 1)]
    shown = [one.encode() for one in given if one]
    expected = [base64.b64encode(hmac.digest(key.encode(), body, "sha256")) for key in keys]
    return any(hmac.compare_digest(one, other) for one in shown for other in expected)


class _Loose(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Recipient(_Loose):
    email: str = ""
    status: str = ""
    signedDateTime: datetime | None = None  # noqa: N815 - DocuSign's name
    declinedDateTime: datetime | None = None  # noqa: N815
    declinedReason: str | None = None  # noqa: N815


class _Recipients(_Loose):
    signers: list[_Recipient] = []


class _TextField(_Loose):
    name: str = ""
    value: str | None = None


class _CustomFields(_Loose):
    textCustomFields: list[_TextField] = []  # noqa: N815


class _Summary(_Loose):
    status: str = ""
    voidedReason: str | None = None  # noqa: N815
    recipients: _Recipients = _Recipients()
    customFields: _CustomFields = _CustomFields()  # noqa: N815


class _Data(_Loose):
    envelopeId: str | None = None  # noqa: N815
    envelopeSummary: _Summary = _Summary()  # noqa: N815


class _Webhook(_Loose):
    event: str = ""
    data: _Data = Field(default_factory=_Data)


def read_event(body: bytes) -> Event | None:
    """What Connect tells, in its JSON form; None when it is of no concern.

    Raises:
        ValueError: it is not in that form.
    """
    told = _Webhook.model_validate_json(body)
    status = _EVENTS.get(told.event)
    if status is None or told.data.envelopeId is None:
        return None
    fields = told.data.envelopeSummary.customFields.textCustomFields
    key = next((one.value for one in fields if one.name == _KEY_FIELD), None)
    news = _news(told.data.envelopeSummary, status)
    return Event(replace(news, status=further(news.status, status)), told.data.envelopeId, key)


def _news(summary: _Summary, otherwise: Status) -> News:
    signers = tuple(_signers(summary.recipients.signers))
    declined = next((one.reason for one in signers if one.state is SignerState.DECLINED), None)
    status = _STATUSES.get(summary.status.lower(), otherwise)
    if status in (Status.SENT, Status.DELIVERED) and any(one.state is SignerState.SIGNED for one in signers):
        status = Status.SIGNED
    return News(status, signers, summary.voidedReason or declined)


def _signers(found: Iterable[_Recipient]) -> Iterable[SignerNews]:
    for one in found:
        state = _SIGNER_STATES.get(one.status.lower(), SignerState.PENDING)
        yield SignerNews(one.email.lower(), state, one.signedDateTime or one.declinedDateTime, one.declinedReason)


def _definition(order: Order, key: str) -> Json:
    numbered = list(enumerate(order.signers, 1))
    signers = [one for one in numbered if one[1].role is SignerRole.SIGNER]
    copies = [one for one in numbered if one[1].role is SignerRole.CC]
    return {
        "status": "created",
        "emailSubject": order.title[:_SUBJECT_CHARS],
        "emailBlurb": order.message or "",
        "documents": [
            {
                "documentId": _DOCUMENT_ID,
                "name": f"{order.title[:_SUBJECT_CHARS]}.pdf",
                "fileExtension": "pdf",
                "documentBase64": base64.b64encode(order.document.content).decode(),
            }
        ],
        "recipients": {
            "signers": [
                {**_recipient(number, signer), "tabs": _tabs(order, number, place)}
                for place, (number, signer) in enumerate(signers)
            ],
            "carbonCopies": [_recipient(number, signer) for number, signer in copies],
        },
        "customFields": {
            "textCustomFields": [{"name": _KEY_FIELD, "value": key, "show": "false", "required": "false"}]
        },
    }


def _recipient(number: int, signer: Signer) -> Json:
    return {
        "recipientId": str(number),
        "routingOrder": str(signer.order),
        "name": signer.name,
        "email": signer.email,
    }


def _tabs(order: Order, number: int, place: int) -> Json:
    """Return where one signer signs and where the date goes: without tabs a signer puts the signature anywhere."""
    width, height = order.last_page
    row, column = divmod(place, _COLUMNS)
    left = _SIDE_PT + column * (width - 2 * _SIDE_PT) // _COLUMNS
    top = max(0, height - _LOWER_PT - row * _ROW_PT)
    return {
        "signHereTabs": [_tab(order, f"sign-{number}", left, top)],
        "dateSignedTabs": [_tab(order, f"date-{number}", left, min(top + _DATE_BELOW_PT, height - 1))],
    }


def _tab(order: Order, label: str, left: int, top: int) -> Json:
    return {
        "documentId": _DOCUMENT_ID,
        "pageNumber": str(order.pages),
        "xPosition": str(left),
        "yPosition": str(top),
        "tabLabel": label,
    }
