"""Rules of checklists: a change is validated first, made whole or not at all, and once."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from dragoman.context import Caller
from dragoman.errors import NotFound
from dragoman.infra.db import scope_of
from dragoman.services.checklists import models as m
from dragoman.services.checklists.errors import PatchConflict, PatchInvalid, RevisionMoved, ValidationUnfit
from dragoman.services.checklists.patching import apply_patch, digest_of_patch
from dragoman.services.checklists.store import ChecklistStore, NewPatch, Record

_MOST_PATCHES: Final = 100
_VALID_FOR: Final = timedelta(minutes=15)


class ChecklistService:
    """Keeps the closing checklists of a tenant."""

    def __init__(self, store: ChecklistStore, *, new_id: Callable[[], UUID]) -> None:
        self._store = store
        self._new_id = new_id

    async def create(self, caller: Caller, new: m.CreateChecklist) -> m.ChecklistView:
        """A new checklist.

        Raises:
            ChecklistNameTaken: another one has the name.
        """
        content = new.model_dump(mode="json", exclude={"name", "matter_id"})
        row = await self._store.add(scope_of(caller), self._new_id(), new.name, new.matter_id, content, caller.subject)
        return _view(row, [])

    async def show(self, caller: Caller, wanted: m.GetChecklist) -> m.ChecklistView:
        """A checklist with its latest patches.

        Raises:
            NotFound: there is none.
        """
        row = await self._get(caller, wanted.checklist_id)
        return _view(row, await self._store.list_patches(scope_of(caller), row["id"], _MOST_PATCHES))

    async def validate(self, caller: Caller, given: m.ValidatePatch) -> m.PatchValidation:
        """Try a patch without making it; a validation is good for this patch at this revision, for 15 minutes.

        Raises:
            NotFound: there is no such checklist.
            RevisionMoved: the checklist has another revision than the expected one.
        """
        row, patch = await self._get(caller, given.checklist_id), given.patch()
        _check_revision(row, patch)
        _, wrong = apply_patch(row["content"], patch)
        if wrong:
            complaints = [m.Complaint(field=one.field, message=one.message) for one in wrong]
            return m.PatchValidation(
                valid=False, complaints=complaints, validation_id=None, expires_at=None, revision=row["revision"]
            )
        validation_id, until = self._new_id(), datetime.now(UTC) + _VALID_FOR
        await self._store.add_validation(
            scope_of(caller), validation_id, row["id"], digest_of_patch(patch), row["revision"], until
        )
        return m.PatchValidation(
            valid=True, complaints=[], validation_id=validation_id, expires_at=until, revision=row["revision"]
        )

    async def patch(
        self, caller: Caller, ref: str, given: m.ApplyPatch, *, task_id: UUID
    ) -> tuple[UUID, m.PatchView, bool]:
        """Make a patch or keep it as proposed: the checklist's id, the patch, and whether it had been made before.

        Raises:
            NotFound: there is no such checklist.
            PatchConflict: its id was used for other changes.
            RevisionMoved: the checklist has another revision than the expected one.
            ValidationUnfit: it was not validated, or too long ago.
            PatchInvalid: it cannot be made.
        """
        scope, row, patch = scope_of(caller), await self._get(caller, ref), given.patch()
        digest = digest_of_patch(patch)
        if (made := await self._store.find_patch(scope, row["id"], patch.patch_id)) is not None:
            return row["id"], _patch(_same(made, digest)), made["task_id"] != task_id
        _check_revision(row, patch)
        applies = patch.mode is m.PatchMode.APPLY
        if applies and not await self._is_validated(caller, row, given, digest):
            raise ValidationUnfit(given.validation_id)
        content, wrong = apply_patch(row["content"], patch)
        if content is None:
            raise PatchInvalid(wrong)
        new = NewPatch(
            patch_id=patch.patch_id,
            digest=digest,
            mode=patch.mode.value,
            revision=row["revision"] + 1 if applies else row["revision"],
            source_event=patch.source_event,
            operations=[one.model_dump(mode="json") for one in patch.operations],
            made_by=caller.subject,
            task_id=task_id,
        )
        added = await self._store.add_patch(
            scope, row["id"], new, at_revision=row["revision"],
            content=content.model_dump(mode="json") if applies else None,
        )  # fmt: skip
        if added is None:
            _check_revision(await self._get(caller, ref), patch)
            raise NotFound("checklist", ref)
        return row["id"], _patch(_same(added, digest)), added["task_id"] != task_id

    async def _is_validated(self, caller: Caller, row: Record, given: m.ApplyPatch, digest: bytes) -> bool:
        return given.validation_id is not None and await self._store.is_validated(
            scope_of(caller), given.validation_id, row["id"], digest, row["revision"]
        )

    async def _get(self, caller: Caller, ref: str) -> Record:
        if (row := await self._store.find(scope_of(caller), ref)) is None:
            raise NotFound("checklist", ref)
        return row


def _check_revision(row: Record, patch: m.ChecklistPatch) -> None:
    if row["revision"] != patch.expected_revision:
        raise RevisionMoved(expected=patch.expected_revision, current=row["revision"])


def _same(made: Record, digest: bytes) -> Record:
    if made["digest"] != digest:
        raise PatchConflict(made["patch_id"])
    return made


def _patch(row: Record) -> m.PatchView:
    return m.PatchView.model_validate({name: value for name, value in row.items() if name != "digest"})


def _view(row: Record, patches: list[Record]) -> m.ChecklistView:
    content = m.ChecklistContent.model_validate(row["content"])
    return m.ChecklistView(
        id=row["id"], name=row["name"], matter_id=row["matter_id"], title=content.title, revision=row["revision"],
        entries=content.entries, created_by=row["created_by"], created_at=row["created_at"],
        updated_at=row["updated_at"], patches=[_patch(one) for one in patches],
    )  # fmt: skip
