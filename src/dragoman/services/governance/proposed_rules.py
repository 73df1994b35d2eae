"""Rules on actions that somebody proposes: refused where they could never match."""

from typing import Any

from dragoman.context import Caller
from dragoman.errors import FieldError, InvalidInput
from dragoman.services.governance.actions import complaint_about
from dragoman.services.governance.ports import ActionInputs
from dragoman.services.governance.rule_checks import actions_named, find_mistakes


class ProposedRules:
    """Checks the Cedar text of a policy before it can come into force."""

    def __init__(self) -> None:
        # The registry of workers comes later.
        self.inputs: ActionInputs | None = None

    async def check(self, caller: Caller, metadata: dict[str, Any]) -> None:
        """Check the rules on actions of a proposed policy.

        Raises:
            InvalidInput: the text is no Cedar, or a statement can never match.
        """
        cedar = str(metadata.get("cedar") or "")
        if not cedar:
            return
        if (complaint := complaint_about(cedar)) is not None:
            raise InvalidInput.of("metadata.cedar", complaint)
        fields = {action: await self._fields(caller, action) for action in actions_named(cedar)}
        if mistakes := find_mistakes(cedar, fields.get):
            raise InvalidInput([FieldError(field="metadata.cedar", message=mistake) for mistake in mistakes])

    async def _fields(self, caller: Caller, action: str) -> frozenset[str] | None:
        return await self.inputs.find_fields(caller, action) if self.inputs is not None else None
