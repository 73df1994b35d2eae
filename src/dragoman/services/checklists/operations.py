"""What can be asked of checklists at once; a patch is handed over as an envelope (`checklist.patch`)."""

from dragoman.operations import Effect, Operation
from dragoman.services.checklists import models as m

READ, WRITE = "read:documents", "write:documents"
_SKILL = "contracts"
_ID = "01890a5d-ac96-774b-bcce-b302099a8057"

CREATE = Operation(
    "checklist.create", "Begin a closing checklist", m.CreateChecklist, m.ChecklistView, WRITE, Effect.WRITE,
    part_of=_SKILL,
    example={"title": "Closing of Globex", "entries": {"nda": {"title": "Mutual NDA", "stage": "PRE_SIGNING"}}},
)  # fmt: skip
SHOW = Operation(
    "checklist.show", "Show a closing checklist", m.GetChecklist, m.ChecklistView, READ, part_of=_SKILL,
    example={"checklist_id": _ID},
)  # fmt: skip
VALIDATE = Operation(
    "checklist.validate", "Try a patch of a checklist", m.ValidatePatch, m.PatchValidation, WRITE, Effect.WRITE,
    part_of=_SKILL,
    description="Nothing is changed. What it gives is needed to apply the patch, for 15 minutes and at this revision.",
    example={
        "checklist_id": _ID, "patch_id": "p-1", "expected_revision": 1,
        "operations": [{"op": "replace", "path": "/entries/nda/status", "value": "DRAFT"}],
    },
)  # fmt: skip
