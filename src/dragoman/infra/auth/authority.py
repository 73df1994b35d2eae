"""May this caller do this? Cedar policies decide; they ship as files and can be replaced."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from importlib import resources
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import cedarpy

    from dragoman.context import Caller

_MOST_CACHED = 10_000


class PolicyError(Exception):
    """The policy files cannot be used; the message names the file."""


class Action(Protocol):
    """What the policies are asked about; an Operation is one."""

    @property
    def name(self) -> str:
        """`noun.verb`."""
        ...

    @property
    def permission(self) -> str:
        """The scope it belongs to."""
        ...


class Authority:
    """Answers from the policies, and remembers.

    A decision depends on the roles, the scopes, the kind of principal and the operation, and on nothing else that a
    policy can see; so the same question always has the same answer and is asked of Cedar once.
    """

    def __init__(self, sources: dict[str, str]) -> None:
        self._sources = dict(sorted(sources.items()))
        self._text = "\n".join(self._sources.values())
        self.version = hashlib.sha256(self._text.encode()).hexdigest()[:16]
        self._decisions: dict[tuple[object, ...], str | None] = {}

    @classmethod
    def open(cls, directory: Path | None = None, plugged: Mapping[str, str] | None = None) -> Authority:
        """Read `*.cedar` of the directory, or the built-in ones and those of plugins.

        Raises:
            PolicyError: there are none, or one does not parse.
        """
        origin = directory or resources.files("dragoman.infra.auth").joinpath("policies")
        try:
            sources = {
                entry.name: entry.read_text(encoding="utf-8")
                for entry in origin.iterdir()
                if entry.name.endswith(".cedar")
            }
        except (OSError, UnicodeDecodeError) as error:
            raise PolicyError(f"DRAGOMAN_POLICY_DIR: cannot read {origin}: {error}") from error
        if not sources:
            raise PolicyError(f"DRAGOMAN_POLICY_DIR: {origin} has no *.cedar file")
        if directory is None:
            sources |= {f"plugin {name}": text for name, text in (plugged or {}).items() if text}
        authority = cls(sources)
        if directory is not None:
            authority.check()
        return authority

    def check(self) -> None:
        """Parse the policies now. Without this it happens with the first question: an idle server does without Cedar.

        Raises:
            PolicyError: a file does not parse.
        """
        for name, text in self._sources.items():
            _parse(name, text)
        _ = self._policies

    @cached_property
    def _policies(self) -> cedarpy.PolicySet:
        return _parse(", ".join(self._sources), self._text)

    def refusal(self, caller: Caller, action: Action) -> str | None:
        """None when the caller may; else the id of the policy that forbids it, or `no policy permits it`."""
        question = (caller.roles, caller.scopes, caller.type, action.name)
        try:
            return self._decisions[question]
        except KeyError:
            pass
        answer = self._ask(caller, action)
        if len(self._decisions) >= _MOST_CACHED:
            self._decisions.pop(next(iter(self._decisions)))
        self._decisions[question] = answer
        return answer

    def permits(self, caller: Caller, action: Action) -> bool:
        """Whether the caller may."""
        return self.refusal(caller, action) is None

    def _ask(self, caller: Caller, action: Action) -> str | None:
        import cedarpy  # noqa: PLC0415 - 7 MB, when there is a question

        principal = {"type": "Principal", "id": caller.type.value}
        entities = [
            {
                "uid": principal,
                "attrs": {
                    "type": caller.type.value,
                    "limited": caller.scopes is not None,
                    "scopes": sorted(caller.scopes or ()),
                },
                "parents": [{"type": "Role", "id": role.value} for role in sorted(caller.roles)],
            },
            {
                "uid": {"type": "Action", "id": action.name},
                "attrs": {},
                "parents": [{"type": "Action", "id": action.permission}],
            },
        ]
        request = {
            "principal": principal,
            "action": {"type": "Action", "id": action.name},
            "resource": {"type": "Tenant", "id": "own"},
            "context": {"permission": action.permission},
        }
        result = cedarpy.is_authorized(request, self._policies, cedarpy.Entities.from_json_str(json.dumps(entities)))
        # A policy that fails to evaluate is skipped by Cedar; a forbid that is skipped would open the door.
        if result.diagnostics.errors:
            return f"a policy failed: {result.diagnostics.errors[0]}"
        if result.allowed:
            return None
        named = cast("dict[str, str]", result.diagnostics.id_annotations_by_reason).values()
        return ", ".join(sorted(named)) or "no policy permits it"


def _parse(name: str, text: str) -> cedarpy.PolicySet:
    import cedarpy  # noqa: PLC0415 - as above

    try:
        return cedarpy.PolicySet.from_str(text)
    except ValueError as error:
        raise PolicyError(f"the policies in {name} cannot be used: {error}") from error
