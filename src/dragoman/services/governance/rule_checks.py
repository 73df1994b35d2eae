"""Whether a rule on actions can ever match: it names only what rules are shown, and compares it with what it can be."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, cast

from dragoman.context import PrincipalType, Role

Json = dict[str, Any]
# The fields that an action takes; None where that is not known.
Declared = Callable[[str], frozenset[str] | None]

_TYPES: Final = ("Principal", "Role", "Action", "Resource")
# What each variable can be compared with or be in.
_KINDS: Final = {"principal": ("Principal", "Role"), "action": ("Action",), "resource": ("Resource",)}
_FIELDS: Final[Mapping[tuple[str, ...], tuple[str, ...]]] = {
    ("principal",): ("subject", "type"),
    ("resource",): ("id", "type", "version", "sha256"),
    ("context",): ("action", "path", "matter", "on_behalf_of", "input"),
    ("action",): (),
}
_INPUT: Final = ("context", "input")
_ORDERINGS: Final = frozenset({"<", "<=", ">", ">="})
_KNOWN: Final[Mapping[tuple[str, ...], tuple[str, ...]]] = {
    ("principal", "type"): tuple(one.value for one in PrincipalType),
}


def actions_named(cedar: str) -> set[str]:
    """Return the actions that the statements of a text are about."""
    return {action for statement in _statements(cedar) for action in _scope_actions(statement)}


def find_mistakes(cedar: str, declared: Declared) -> list[str]:
    """Return why statements of a text can never match, or have no effect; the text must be Cedar."""
    found: list[str] = []
    for number, statement in enumerate(_statements(cedar), 1):
        name = cast("Json", statement.get("annotations", {})).get("id") or f"statement {number}"
        found += [f"{name}: {mistake}" for mistake in dict.fromkeys(_mistakes(statement, declared))]
    return found


def _statements(cedar: str) -> list[Json]:
    import cedarpy  # noqa: PLC0415 - 7 MB, when there is a question

    read = cast("Json", json.loads(cedarpy.policies_to_json_str(cedar)))
    return [*read["staticPolicies"].values(), *({**one, "template": True} for one in read["templates"].values())]


def _mistakes(statement: Json, declared: Declared) -> Iterator[str]:
    if statement.get("template"):
        yield "is a template, and nothing fills its slots"
        return
    if statement["effect"] == "permit":
        yield "permits, which has no effect: what no policy forbids is allowed; write forbid with unless"
    for variable, kinds in _KINDS.items():
        yield from _scope_mistakes(variable, kinds, statement[variable])
    fields = _declared_by(_scope_actions(statement), declared)
    for condition in statement.get("conditions", []):
        if _constant(condition["body"]) is (condition["kind"] == "unless"):
            yield f"its {condition['kind']} is always {str(condition['kind'] == 'unless').lower()}"
        yield from _expression_mistakes(condition["body"], fields)


def _scope_actions(statement: Json) -> list[str]:
    scope = statement["action"]
    return [str(one["id"]) for one in ([scope["entity"]] if "entity" in scope else scope.get("entities", []))]


def _declared_by(actions: Iterable[str], declared: Declared) -> frozenset[str] | None:
    """The input fields that any of the actions takes; None where one of them may take others."""
    known = [declared(action) for action in actions]
    if not known or any(fields is None for fields in known):
        return None
    return frozenset(name for fields in known if fields is not None for name in fields)


def _scope_mistakes(variable: str, kinds: tuple[str, ...], scope: Json) -> Iterator[str]:
    named = [scope[part] for part in ("entity",) if part in scope] + list(scope.get("entities", []))
    if "in" in scope:
        named.append(scope["in"]["entity"])
    for entity in named:
        yield from _entity_mistakes(entity)
        yield from _kind_mistakes(variable, entity["type"], same=scope["op"] == "==", kinds=kinds)
    if (kind := scope.get("entity_type")) is not None and kind != kinds[0]:
        yield f"{variable} is never a {kind}: it is a {kinds[0]}"


def _kind_mistakes(variable: str, kind: str, *, same: bool, kinds: tuple[str, ...]) -> Iterator[str]:
    if kind not in (kinds[:1] if same else kinds):
        yield f"{variable} is never {'a' if same else 'in a'} {kind}; compare it with {' or '.join(kinds)}"


def _entity_mistakes(entity: Json) -> Iterator[str]:
    kind, name = str(entity["type"]), str(entity["id"])
    if kind not in _TYPES:
        yield f"there is no type {kind}: the types are {', '.join(_TYPES)}"
    elif kind == "Role" and name not in {role.value for role in Role}:
        yield f"there is no role {name!r}: the roles are {', '.join(role.value for role in Role)}"
    elif kind == "Action" and (not name or "*" in name):
        yield f'no action is called {name!r}: for all that begin with it, write action in Action::"signature"'


def _expression_mistakes(node: Any, fields: frozenset[str] | None) -> Iterator[str]:
    """What is wrong in an expression, and in all that is part of it."""
    if isinstance(node, list):
        for inner in cast("list[Any]", node):
            yield from _expression_mistakes(inner, fields)
        return
    if not isinstance(node, dict):
        return
    for operator, parts in cast("Json", node).items():
        if operator == "__entity":
            yield from _entity_mistakes(parts)
            continue
        if operator in (".", "has"):
            yield from _field_mistakes(_path(parts["left"]), parts["attr"], fields)
        elif operator in ("==", "in") or operator in _ORDERINGS:
            yield from _comparison_mistakes(operator, parts)
        elif operator == "is" and (path := _path(parts["left"])) is not None and path[0] in _KINDS and len(path) == 1:
            yield from _scope_mistakes(path[0], _KINDS[path[0]], {"op": "is", "entity_type": parts["entity_type"]})
        yield from _expression_mistakes(parts, fields)


def _path(node: Any) -> tuple[str, ...] | None:
    """Where an expression looks: `context.input.amount` is three words; None where it is something else."""
    if not isinstance(node, dict):
        return None
    match cast("Json", node):
        case {"Var": str(name)}:
            return (name,)
        case {".": {"left": left, "attr": str(name)}} if (path := _path(left)) is not None:
            return (*path, name)
        case _:
            return None


def _field_mistakes(path: tuple[str, ...] | None, name: str, fields: frozenset[str] | None) -> Iterator[str]:
    if path is None or path[:2] == _INPUT:
        if path == _INPUT and fields is not None and name not in fields:
            yield f"context.input.{name} is no field of these actions: they take {', '.join(sorted(fields)) or 'none'}"
        return
    known = _FIELDS.get(path, ())
    if name not in known:
        have = f"it has {', '.join(known)}" if known else "it has no fields"
        yield f"{'.'.join(path)} has no field {name!r}: {have}"


def _comparison_mistakes(operator: str, parts: Json) -> Iterator[str]:
    for one, other in ((parts["left"], parts["right"]), (parts["right"], parts["left"])):
        path = _path(one)
        if path is None:
            continue
        if len(path) == 1 and path[0] in _KINDS:
            for entity in _entities(other):
                yield from _kind_mistakes(path[0], entity["type"], same=operator == "==", kinds=_KINDS[path[0]])
        elif len(path) == 2 and path != _INPUT and path[1] in _FIELDS.get(path[:1], ()):
            value = cast("Json", other).get("Value") if isinstance(other, dict) else None
            if operator in _ORDERINGS or (value is not None and not isinstance(value, str)):
                yield f"{'.'.join(path)} is a text, and is compared with something else"
            elif isinstance(value, str) and path in _KNOWN and value not in _KNOWN[path]:
                yield f"{'.'.join(path)} is never {value!r}: it is {', '.join(_KNOWN[path])}"


def _entities(node: Any) -> list[Json]:
    """The entities that an expression is made of, where it is one or a set of them."""
    match cast("Json", node) if isinstance(node, dict) else {}:
        case {"Value": {"__entity": entity}}:
            return [cast("Json", entity)]
        case {"Set": members}:
            return [entity for member in cast("list[Any]", members) for entity in _entities(member)]
        case _:
            return []


def _constant(node: Any) -> bool | None:
    """What an expression always is; None where that depends."""
    match cast("Json", node) if isinstance(node, dict) else {}:
        case {"Value": bool(value)}:
            return value
        case {"!": {"arg": arg}}:
            inner = _constant(arg)
            return None if inner is None else not inner
        case {"&&": {"left": left, "right": right}}:
            both = (_constant(left), _constant(right))
            return False if False in both else (True if both == (True, True) else None)
        case {"||": {"left": left, "right": right}}:
            both = (_constant(left), _constant(right))
            return True if True in both else (False if both == (False, False) else None)
        case _:
            return None
