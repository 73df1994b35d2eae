"""The worker `documents`: drafts contracts, compares versions of them, and marks them as executed."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Any, Final, cast

from dragoman.blocking import Threads
from dragoman.context import Caller, report_progress
from dragoman.errors import InvalidInput
from dragoman.services.contracts import models as m
from dragoman.services.contracts.documents import DocumentService, Held, Made, Placed
from dragoman.services.contracts.drafting import DraftDocument, draft
from dragoman.services.contracts.executing import Execution, MarkExecuted
from dragoman.services.contracts.prose import Blocks, write_markdown
from dragoman.services.contracts.redlining import Change, Redline, compare
from dragoman.services.contracts.resources import version_of
from dragoman.services.contracts.revising import RedlineDocument, reasons_of, revise_blocks, revise_text
from dragoman.services.contracts.typesetting import Typesetter, count_pages, plain
from dragoman.services.contracts.wording import Unreadable, Wording, read_blocks, read_wording
from dragoman.services.workers.protocol import Assignment, Capability, Evidence, EvidenceKind, Json, Performed

# What a result holds of a redline; all of it stands in the document.
_MOST_CHANGES: Final = 200
_MOST_WORDS: Final = 2_000
_REVISE: Final = "revise"
_WRITES: Final = ("write:documents",)
DRAFT = Capability(
    "document.draft", "Draft a contract from a template", DraftDocument, timeout_s=60, at_once=20, permissions=_WRITES
)  # fmt: skip
REDLINE = Capability(
    "document.redline", "Compare two versions of a document, or make the next one, with reasons", RedlineDocument,
    timeout_s=120, at_once=20, permissions=("read:documents", *_WRITES),
)  # fmt: skip
MARK_EXECUTED = Capability(
    "document.mark_executed",
    "Say that a document is executed",
    MarkExecuted,
    sensitive=True,
    timeout_s=60,
    permissions=_WRITES,
)


class DocumentsWorker:
    """Works on the documents of whoever asks. What it keeps it keeps once, however often it is tried."""

    name = "documents"
    capabilities: Sequence[Capability] = (DRAFT, REDLINE, MARK_EXECUTED)

    def __init__(self, documents: DocumentService, typesetter: Typesetter, execution: Execution) -> None:
        self._documents = documents
        self._typesetter = typesetter
        self._execution = execution
        self._threads = Threads("redline", 4, share=2)
        self._actions: dict[str, Callable[[Assignment], Awaitable[Performed]]] = {
            DRAFT.action: self._draft,
            REDLINE.action: self._redline,
            MARK_EXECUTED.action: self._mark_executed,
        }

    async def perform(self, assignment: Assignment) -> Performed:
        """Do what the envelope asks for."""
        return await self._actions[assignment.envelope.action](assignment)

    async def _draft(self, assignment: Assignment) -> Performed:
        given, envelope = cast("DraftDocument", assignment.input), assignment.envelope
        made = draft(given)
        await report_progress("Setting the contract", 30)
        pdf = await self._typesetter.typeset(
            plain(made.blocks), tenant=assignment.caller.tenant, title=made.title, note=given.template.value
        )
        placed = await self._documents.create(
            assignment.caller,
            Made(
                pdf, m.MediaType.PDF, m.VersionKind.DRAFTED, assignment.task_id, "draft",
                source=write_markdown(made.blocks), template=given.template.value,
                fields=given.fields.model_dump(mode="json"),
            ),
            title=made.title, name=envelope.resource.id, matter_id=envelope.matter.id,
        )  # fmt: skip
        output = _shown(placed) | {"template": given.template.value, "title": made.title, "pages": count_pages(pdf)}
        return Performed(output, (_evidence(placed),))

    async def _redline(self, assignment: Assignment) -> Performed:
        given, ref = cast("RedlineDocument", assignment.input), assignment.envelope.resource.id
        number = _first_version(assignment, given)
        newest = number is None
        earlier = await self._documents.read(assignment.caller, ref, number)
        # Looked for after the newest was read: else another attempt could make it in between.
        if newest and (done := await self._documents.find_made(assignment.caller, assignment.task_id, _REVISE)):
            # An attempt before this one has made the newest; the one acted on is still the one before it.
            earlier = await self._documents.read(assignment.caller, ref, done.version.version - 1)
        old = await self._threads.run(assignment.caller.tenant, read_wording, earlier)
        if isinstance(old, Unreadable):
            return Performed(_unavailable(earlier, old))
        if given.to_version is None:
            return await self._revise(assignment, earlier, old, newest=newest)
        later = await self._documents.read(assignment.caller, ref, given.to_version)
        new = await self._threads.run(assignment.caller.tenant, read_wording, later)
        if isinstance(new, Unreadable):
            return Performed(_unavailable(later, new))
        redline = await self._threads.run(
            assignment.caller.tenant, compare, old.blocks, new.blocks, why=reasons_of(given)
        )
        return await self._compared(assignment, earlier, Placed(later.document.id, later.version), redline)

    async def _revise(self, assignment: Assignment, earlier: Held, old: Wording, *, newest: bool) -> Performed:
        given = cast("RedlineDocument", assignment.input)
        raw, blocks = await self._threads.run(
            assignment.caller.tenant, _revised, given, old, earlier.version.media_type
        )
        redline = await self._threads.run(assignment.caller.tenant, compare, old.blocks, blocks, why=reasons_of(given))
        if not redline.changes:
            return await self._compared(assignment, earlier, Placed(earlier.document.id, earlier.version), redline)
        await report_progress("Setting the new version", 30)
        content, media_type, source = await self._rendered(assignment.caller, earlier, raw, blocks)
        placed = await self._documents.append(
            assignment.caller,
            str(earlier.document.id),
            Made(content, media_type, m.VersionKind.REVISED, assignment.task_id, _REVISE, source=source),
            after=earlier.version.version if newest else None,
        )
        return await self._compared(assignment, earlier, placed, redline)

    async def _rendered(
        self, caller: Caller, earlier: Held, raw: str | None, blocks: Blocks
    ) -> tuple[bytes, m.MediaType, str | None]:
        """A new version in the manner of the earlier one."""
        if earlier.version.media_type is m.MediaType.PDF:
            pdf = await self._typesetter.typeset(plain(blocks), tenant=caller.tenant, title=earlier.document.title)
            return pdf, m.MediaType.PDF, write_markdown(blocks)
        if raw is not None:
            return raw.encode(), earlier.version.media_type, None
        return write_markdown(blocks).encode(), m.MediaType.MARKDOWN, None

    async def _compared(self, assignment: Assignment, earlier: Held, later: Placed, redline: Redline) -> Performed:
        """What changed, with a document that shows it when anything did."""
        changes = [_told(change) for change in redline.changes[:_MOST_CHANGES]]
        output: Json = {
            **_shown(later), "available": True, "from_version": earlier.version.version,
            "to_version": later.version.version, "change_count": len(redline.changes), "changes": changes,
            "redline": None,
        }  # fmt: skip
        if not redline.changes:
            return Performed(output)
        await report_progress("Setting the redline", 70)
        title = f"Redline: {earlier.document.title}"[:200]
        legend = f"{earlier.document.title}: version {earlier.version.version} against version {later.version.version}"
        pdf = await self._typesetter.typeset(
            redline.blocks, tenant=assignment.caller.tenant, title=title, legend=legend
        )
        shown = await self._documents.create(
            assignment.caller,
            Made(
                pdf, m.MediaType.PDF, m.VersionKind.COMPARED, assignment.task_id, "redline", source=redline.markdown()
            ),
            title=title, name=None, matter_id=assignment.envelope.matter.id, about=earlier.document.id,
        )  # fmt: skip
        return Performed(output | {"redline": _shown(shown)}, (_evidence(later), _evidence(shown)))

    async def _mark_executed(self, assignment: Assignment) -> Performed:
        given, resource = cast("MarkExecuted", assignment.input), assignment.envelope.resource
        done = await self._execution.mark(assignment.caller, resource.id, version_of(resource), given)
        placed, at = Placed(done.document.id, done.held.version), done.document.updated_at
        signed = Evidence(EvidenceKind.SIGNATURE, placed.version.sha256, placed.version.uri, at)
        others = [
            Evidence(EvidenceKind(one.kind), one.sha256, f"dragoman://contents/{one.sha256}", at)
            for one in done.shown_by
        ]
        output = _shown(placed) | {
            "state": done.document.state.value,
            "signatures_valid": done.verdict.valid,
            "signers": list(done.verdict.signers),
        }
        return Performed(output, ((signed,) if done.verdict.valid else ()) + tuple(others))


def _first_version(assignment: Assignment, given: RedlineDocument) -> int | None:
    """The earlier of the two: the one that is named, else the one acted on, else the one before the later."""
    if given.from_version is not None:
        return given.from_version
    named = version_of(assignment.envelope.resource)
    if given.to_version is None or (named is not None and named != given.to_version):
        return named
    if given.to_version == 1:
        raise InvalidInput.of("input.to_version", "the first version has none before it; give from_version")
    return given.to_version - 1


def _revised(given: RedlineDocument, old: Wording, media_type: m.MediaType) -> tuple[str | None, Blocks]:
    """The new text as it is to be kept, where it is kept as written, and as blocks."""
    if given.text is not None:
        raw = given.text if old.raw is not None else None
        return raw, read_blocks(given.text, media_type)
    edits = given.edits or ()
    if old.raw is None:
        return None, revise_blocks(old.blocks, edits)
    raw = revise_text(old.raw, edits)
    return raw, read_blocks(raw, media_type)


def _told(change: Change) -> Json:
    return {**asdict(change), "before": change.before[:_MOST_WORDS], "after": change.after[:_MOST_WORDS]}


def _shown(placed: Placed) -> dict[str, Any]:
    version = placed.version
    return {
        "document_id": str(placed.document_id),
        "version": version.version,
        "sha256": version.sha256,
        "uri": version.uri,
        "media_type": version.media_type.value,
        "size_bytes": version.size_bytes,
    }


def _unavailable(held: Held, why: Unreadable) -> Json:
    return {
        "document_id": str(held.document.id),
        "available": False,
        "version": held.version.version,
        "reason": why.reason,
        "message": why.message,
    }


def _evidence(placed: Placed) -> Evidence:
    version = placed.version
    return Evidence(EvidenceKind.DOCUMENT, version.sha256, version.uri, version.made_at)
