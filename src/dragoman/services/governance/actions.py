"""Rules on actions: a policy may carry Cedar text that forbids who may do what, to what, in which matter, with what.

What is not forbidden is permitted here: this is asked beside the gate, which has its own policies, and never instead.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from dragoman.context import Caller
from dragoman.services.governance.policies import Policy

if TYPE_CHECKING:
    import cedarpy

Json = dict[str, Any]
_OPEN: Final = '@id("open")\npermit (principal, action, resource);\n'
# The keys by which Cedar's JSON says that a record is something else.
_ESCAPES: Final = frozenset({"__entity", "__extn", "__expr"})
_MOST_LONG: Final = 2**63 - 1
# Cedar has four decimal places in 64 bits.
_MOST_DECIMAL: Final = 922_337_203_685_477.0


@dataclass(frozen=True, slots=True)
class Asker:
    """As much of a caller as rules on actions look at; it is kept with the decision."""

    subject: str
    type: str
    roles: tuple[str, ...]

    @classmethod
    def of(cls, caller: Caller) -> "Asker":
        """Of who asks now."""
        return cls(caller.subject, caller.type.value, tuple(sorted(role.value for role in caller.roles)))

    def as_json(self) -> Json:
        """As it is kept, beside the subject of the decision."""
        return {"type": self.type, "roles": list(self.roles)}


@dataclass(frozen=True, slots=True)
class ActionFacts:
    """What rules see of an action. What is not known is the empty text; `input` is as the action's worker reads it."""

    action: str
    path: str = ""
    resource: Mapping[str, str] = field(default_factory=dict[str, str])
    matter: str = ""
    on_behalf_of: str = ""
    input: Json = field(default_factory=dict[str, Any])


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


def refusals(policies: Iterable[Policy], asker: Asker, facts: ActionFacts) -> list[Refusal]:
    """Every policy that forbids it; a statement that fails to evaluate does: nobody knows what it would have said."""
    import cedarpy  # noqa: PLC0415 - as above

    request, entities = _question(asker, facts)
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


def _question(asker: Asker, facts: ActionFacts) -> tuple[Json, list[Json]]:
    """The request and its entities; `rule_checks` knows the same names."""
    principal = {"type": "Principal", "id": asker.subject}
    action = {"type": "Action", "id": facts.action}
    resource = {"type": "Resource", "id": facts.resource.get("id") or facts.path}
    entities: list[Json] = [
        {
            "uid": principal,
            "attrs": {"subject": asker.subject, "type": asker.type},
            "parents": [{"type": "Role", "id": role} for role in asker.roles],
        },
        {"uid": action, "attrs": {}, "parents": [{"type": "Action", "id": name} for name in _families(facts.action)]},
        {
            "uid": resource,
            "attrs": {name: facts.resource.get(name) or "" for name in ("id", "type", "version", "sha256")},
            "parents": [],
        },
    ]
    context: Json = {
        "action": facts.action,
        "path": facts.path,
        "matter": facts.matter,
        "on_behalf_of": facts.on_behalf_of,
        "input": _as_cedar(facts.input),
    }
    return {"principal": principal, "action": action, "resource": resource, "context": context}, entities


def _families(action: str) -> list[str]:
    """`signature.send` is in `signature`."""
    words = action.split(".")
    return [".".join(words[:end]) for end in range(1, len(words))]


def _as_cedar(value: Any) -> Any:
    """A value of JSON as Cedar has it: a number with a fraction is a decimal, a list is a set, null is left out."""
    match value:
        case bool() | str():
            return value
        case int():
            return max(-_MOST_LONG, min(_MOST_LONG, value))
        case float():
            number = max(-_MOST_DECIMAL, min(_MOST_DECIMAL, value))
            return {"__extn": {"fn": "decimal", "arg": f"{number:.4f}"}}
        case dict():
            return _record(cast("dict[str, Any]", value))
        case list():
            return [_as_cedar(inner) for inner in cast("list[Any]", value) if inner is not None]
        case _:
            return str(value)


def _record(given: dict[str, Any]) -> Any:
    if _ESCAPES & given.keys():
        # In JSON these make entities and other values that are no input: what a rule trusts must not be forged.
        return json.dumps(given, sort_keys=True)
    return {str(name): _as_cedar(inner) for name, inner in given.items() if inner is not None}
