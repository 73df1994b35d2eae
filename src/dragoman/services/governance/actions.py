"""Rules on actions: a policy may carry Cedar text that forbids who may do what.

What is not forbidden is permitted here: this is asked beside the gate, which has its own policies, and never instead.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from dragoman.context import Caller
from dragoman.services.governance.policies import Policy

if TYPE_CHECKING:
    import cedarpy

_OPEN: Final = '@id("open")\npermit (principal, action, resource);\n'


@dataclass(frozen=True, slots=True)
class Asker:
    """As much of a caller as rules on actions look at; it is kept with the decision."""

    type: str
    roles: tuple[str, ...]

    @classmethod
    def of(cls, caller: Caller) -> "Asker":
        """Of who asks now."""
        return cls(caller.type.value, tuple(sorted(role.value for role in caller.roles)))

    def as_json(self) -> dict[str, Any]:
        """As it is kept."""
        return {"type": self.type, "roles": list(self.roles)}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A policy that forbids the action, and which of its statements does."""

    policy: Policy
    statement: str


@lru_cache(maxsize=1_000)
def _parsed(cedar: str) -> "cedarpy.PolicySet":
    import cedarpy  # noqa: PLC0415 - 7 MB, when there is a question

    return cedarpy.PolicySet.from_str(_OPEN + cedar)


def complaint_about(cedar: str) -> str | None:
    """Why the text is no Cedar, or None."""
    import cedarpy  # noqa: PLC0415 - 7 MB, when there is a question

    try:
        cedarpy.PolicySet.from_str(cedar)
    except ValueError as error:
        return f"its Cedar text cannot be used: {str(error).splitlines()[0]}"
    return None


def refusals(policies: Iterable[Policy], asker: Asker, action: str, path: str | None) -> list[Refusal]:
    """Every policy that forbids it; a statement that fails to evaluate does: nobody knows what it would have said."""
    import cedarpy  # noqa: PLC0415 - as above

    principal = {"type": "Principal", "id": asker.type}
    entities = [
        {
            "uid": principal,
            "attrs": {"type": asker.type},
            "parents": [{"type": "Role", "id": role} for role in asker.roles],
        }
    ]
    request = {
        "principal": principal,
        "action": {"type": "Action", "id": action},
        "resource": {"type": "Resource", "id": path or ""},
        "context": {"action": action, "path": path or ""},
    }
    known = cedarpy.Entities.from_json_str(json.dumps(entities))
    found: list[Refusal] = []
    for policy in policies:
        if not policy.cedar:
            continue
        result = cedarpy.is_authorized(request, _parsed(policy.cedar), known)
        if result.diagnostics.errors:
            found.append(Refusal(policy, f"a statement failed: {result.diagnostics.errors[0]}"))
        elif not result.allowed:
            named = cast("dict[str, str]", result.diagnostics.id_annotations_by_reason).values()
            found.append(Refusal(policy, ", ".join(sorted(named)) or "a statement without an id"))
    return found
