"""The worker behind the queue: tried twice, at once, or after a crash, it leaves one of everything; and it executes."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from dragoman.context import Caller, PrincipalType, TenantId
from dragoman.errors import Conflict, DragomanError
from dragoman.infra.auth.keyring import Keyring
from dragoman.infra.db import Database
from dragoman.infra.ids import new_id
from dragoman.kit import Effects
from dragoman.services.contracts.documents import DocumentService, Made
from dragoman.services.contracts.executing import Execution
from dragoman.services.contracts.models import AddDocument, DocumentState, GetDocument, MediaType, VersionKind
from dragoman.services.contracts.ports import SignatureVerdict
from dragoman.services.contracts.store import PROMISED, DocumentStore
from dragoman.services.contracts.typesetting import Typesetter
from dragoman.services.contracts.worker import DocumentsWorker
from dragoman.services.signatures.certificates import CertificateAuthority, Holder
from dragoman.services.signatures.press import Mark, Press
from dragoman.services.signatures.verification import verify
from dragoman.services.tasks.actions.envelope import Envelope
from dragoman.services.workers.protocol import Assignment, Performed
from tests.backstage import database_url
from tests.harness import Server
from tests.services.audit.stating import make_statements
from tests.services.contracts.keeping import pdf, upload
from tests.services.contracts.test_drafting import NDA
from tests.services.tasks.envelopes import envelope

pytestmark = pytest.mark.anyio
OURS = CertificateAuthority(ec.generate_private_key(ec.SECP256R1()))
OTHERS = CertificateAuthority(ec.generate_private_key(ec.SECP256R1()))
DRAFT = {"template": "mutual-nda", "fields": NDA}


@asynccontextmanager
async def pressing(authority: CertificateAuthority) -> AsyncGenerator[Press]:
    press = Press(authority)
    try:
        yield press
    finally:
        await press.stop()


class Embedded:
    """Signatures as our authority sees them, without anybody having been asked to sign."""

    async def verify(self, caller: Caller, document_id: UUID, pdf: bytes, *, sha256: str) -> SignatureVerdict:
        del document_id
        async with pressing(OURS) as press:
            found = await verify(press, pdf, sha256=sha256, tenant=caller.tenant, organisation=caller.tenant_slug)
        signers = tuple(one.signer for one in found.signatures if one.signer is not None)
        return SignatureVerdict(valid=found.valid, explanation=found.explanation, signers=signers)


@dataclass
class Office:
    """A worker with its documents, in a tenant of its own."""

    caller: Caller
    documents: DocumentService
    worker: DocumentsWorker

    async def perform(
        self, action: str, given: dict[str, Any], document: str, *, task: UUID | None = None, **resource: Any
    ) -> Performed:
        """One attempt at one task."""
        asked = envelope(action, given, resource={"type": "document", "id": document, **resource})
        capability = next(one for one in self.worker.capabilities if one.action == action)
        return await self.worker.perform(
            Assignment(
                caller=self.caller,
                task_id=task or new_id(),
                envelope=Envelope.model_validate(asked),
                input=capability.input.model_validate(given),
                attempt=1,
                effects=cast("Effects", None),
            )
        )

    async def sign(self, document: str, authority: CertificateAuthority = OURS) -> str:
        """Add a version that was signed; its hash."""
        held = await self.documents.read(self.caller, document)
        identity = authority.of_tenant(self.caller.tenant, "acme").issue(Holder("Ada Lovelace"), at=datetime.now(UTC))
        async with pressing(authority) as press:
            content = await press.sign(
                held.content, identity, Mark("Ada", "I agree", "Signed"), tenant=self.caller.tenant
            )
        made = Made(content, MediaType.PDF, VersionKind.SIGNED, new_id(), "sign")
        return (await self.documents.append(self.caller, document, made)).version.sha256


@pytest.fixture
async def office(server: Server) -> AsyncIterator[Office]:
    db = Database(database_url(server), size=4)
    mac_key = Keyring.open(server.data_dir / "secrets").audit_mac
    store = DocumentStore(db, make_statements(db, PROMISED, mac_key=mac_key))
    documents = DocumentService(store, max_bytes=1_000_000, new_id=new_id)
    worker = DocumentsWorker(documents, Typesetter(), Execution(documents, Embedded()))
    caller = Caller(TenantId(new_id()), "acme", "ada", PrincipalType.USER, frozenset(), "", 0)
    yield Office(caller, documents, worker)
    await db.stop()


async def test_a_task_that_is_tried_again_makes_each_document_once(office: Office) -> None:
    task = new_id()
    drafted = [await office.perform("document.draft", DRAFT, "nda", task=task) for _ in range(2)]
    change = {"edits": [{"find": "24 months", "replace": "12 months"}]}
    task = new_id()

    changed = [await office.perform("document.redline", change, "nda", task=task) for _ in range(2)]

    assert drafted[0] == drafted[1]
    assert changed[0].output["redline"] == changed[1].output["redline"]
    assert changed[0].output["version"] == changed[1].output["version"] == 2
    shown = await office.documents.show(office.caller, GetDocument(document_id="nda"))
    assert [one.version for one in shown.versions] == [2, 1]


async def test_two_attempts_at_once_make_one_document(office: Office) -> None:
    await office.perform("document.draft", DRAFT, "nda")
    task, change = new_id(), {"text": "# NDA\n\nNothing."}

    made = await asyncio.gather(*(office.perform("document.redline", change, "nda", task=task) for _ in range(3)))

    assert len({str(one.output) for one in made}) == 1


async def test_of_two_changes_to_the_same_version_the_second_is_told(office: Office) -> None:
    await office.perform("document.draft", DRAFT, "nda")
    changes = [{"edits": [{"find": "24 months", "replace": f"{months} months"}]} for months in (12, 36)]

    made = await asyncio.gather(
        *(office.perform("document.redline", change, "nda") for change in changes), return_exceptions=True
    )

    (lost,) = (one for one in made if isinstance(one, DragomanError))
    assert lost.code in ("CONFLICT", "INVALID_PARAMS")
    assert (await office.documents.get(office.caller, "nda")).version == 2


async def test_a_signed_version_is_executed_and_nothing_follows_it(office: Office) -> None:
    await office.perform("document.draft", DRAFT, "nda")
    await office.documents.move(office.caller, "nda", DocumentState.SENT)
    sha256 = await office.sign("nda")

    done = await office.perform("document.mark_executed", {}, "nda")
    again = await office.perform("document.mark_executed", {}, "nda")

    assert done.output == again.output
    assert (done.output["state"], done.output["version"], done.output["signers"]) == ("executed", 2, ["Ada Lovelace"])
    assert [(one.kind.value, one.sha256) for one in done.evidence] == [("signature", sha256)]
    with pytest.raises(Conflict) as caught:
        await office.documents.add(office.caller, AddDocument.model_validate(_version("nda")))
    assert caught.value.details == {"reason": "DOCUMENT_CLOSED", "state": "executed"}
    with pytest.raises(Conflict):
        await office.documents.move(office.caller, "nda", DocumentState.DRAFT)


@pytest.mark.parametrize("authority", [None, OTHERS], ids=["unsigned", "vouched for by others"])
async def test_what_is_not_shown_to_be_signed_is_not_executed(
    office: Office, authority: CertificateAuthority | None
) -> None:
    await office.perform("document.draft", DRAFT, "nda")
    if authority is not None:
        await office.sign("nda", authority)

    with pytest.raises(DragomanError) as caught:
        await office.perform("document.mark_executed", {}, "nda")

    assert (caught.value.code, caught.value.details["reason"]) == ("CONFLICT", "NOT_SIGNED")
    assert (await office.documents.get(office.caller, "nda")).state is DocumentState.DRAFT


async def test_evidence_that_is_kept_is_enough_and_evidence_that_is_not_is_refused(office: Office) -> None:
    await office.perform("document.draft", DRAFT, "nda")
    scan = pdf(b"a scan of the signed page")
    await office.documents.add(office.caller, AddDocument.model_validate(upload(scan, MediaType.PDF)))
    sha256 = hashlib.sha256(scan).hexdigest()

    with pytest.raises(Conflict) as caught:
        await office.perform("document.mark_executed", {"evidence": [{"sha256": "0" * 64}]}, "nda")
    done = await office.perform("document.mark_executed", {"evidence": [{"sha256": sha256, "note": "By hand."}]}, "nda")

    assert caught.value.details == {"reason": "EVIDENCE_UNKNOWN", "sha256": ["0" * 64]}
    assert (done.output["state"], done.output["signatures_valid"]) == ("executed", False)
    assert [(one.kind.value, one.sha256) for one in done.evidence] == [("document", sha256)]


async def test_a_document_is_executed_in_one_version(office: Office) -> None:
    await office.perform("document.draft", DRAFT, "nda")
    await office.sign("nda")
    await office.sign("nda")
    await office.perform("document.mark_executed", {"version": 2}, "nda")

    with pytest.raises(Conflict) as caught:
        await office.perform("document.mark_executed", {"version": 3}, "nda")

    assert caught.value.details["reason"] == "DOCUMENT_CLOSED"
    assert (await office.documents.get(office.caller, "nda")).executed_version == 2


def _version(document: str) -> dict[str, Any]:
    return {"document_id": document, "media_type": "text/plain", "content": "eA=="}
