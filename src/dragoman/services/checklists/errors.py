"""What can go wrong with checklists."""

from collections.abc import Sequence

from dragoman.errors import Conflict, FieldError, InvalidInput


class ChecklistNameTaken(Conflict):
    """Another checklist of the tenant has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is a checklist named {name!r} already", reason="NAME_TAKEN", name=name)


class RevisionMoved(Conflict):
    """The checklist was changed since the patch was thought out."""

    def __init__(self, *, expected: int, current: int) -> None:
        super().__init__(
            f"the checklist is at revision {current}, not {expected}",
            reason="REVISION_MOVED",
            expected=expected,
            current=current,
        )


class PatchConflict(Conflict):
    """The id of the patch was used before for other changes."""

    def __init__(self, patch_id: str) -> None:
        super().__init__(
            f"patch {patch_id!r} was made before, and otherwise", reason="PATCH_CONFLICT", patch_id=patch_id
        )


class ValidationUnfit(Conflict):
    """The validation is of another patch or revision, has expired, or never was."""

    def __init__(self, validation_id: object) -> None:
        super().__init__(
            "the validation does not fit this patch, or has expired; validate it again",
            reason="VALIDATION_UNFIT",
            validation_id=str(validation_id),
        )


class PatchInvalid(InvalidInput):
    """The patch cannot be made; nothing of it was."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__(errors, "the patch cannot be made")
