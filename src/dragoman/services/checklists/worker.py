"""The worker `checklists`: makes patches of closing checklists."""

import hashlib
from collections.abc import Sequence
from typing import cast

import orjson

from dragoman.services.checklists.models import ApplyPatch
from dragoman.services.checklists.service import ChecklistService
from dragoman.services.workers.protocol import Assignment, Capability, Evidence, EvidenceKind, Performed

PATCH = Capability(
    "checklist.patch", "Change a closing checklist", ApplyPatch, required=False, timeout_s=30,
    permissions=("write:documents",),
)  # fmt: skip


class ChecklistsWorker:
    """Makes each patch once, however often it is tried."""

    name = "checklists"
    capabilities: Sequence[Capability] = (PATCH,)

    def __init__(self, checklists: ChecklistService) -> None:
        self._checklists = checklists

    async def perform(self, assignment: Assignment) -> Performed:
        """Make the patch."""
        given = cast("ApplyPatch", assignment.input)
        checklist_id, made, replayed = await self._checklists.patch(
            assignment.caller, assignment.envelope.resource.id, given, task_id=assignment.task_id
        )
        uri = f"dragoman://checklists/{checklist_id}/revisions/{made.revision}"
        output = {
            "checklist_id": str(checklist_id),
            "patch_id": made.patch_id,
            "mode": made.mode.value,
            "revision": made.revision,
            "replayed": replayed,
            "uri": uri,
        }
        sha256 = hashlib.sha256(orjson.dumps(made.operations, option=orjson.OPT_SORT_KEYS)).hexdigest()
        return Performed(output, (Evidence(EvidenceKind.CITATION, sha256, uri, made.made_at),))
