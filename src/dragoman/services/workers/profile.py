"""The contracts profile: the actions that can be delegated to this server, generated from its workers."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from pydantic import Field

from dragoman.context import Caller, current_request
from dragoman.errors import DragomanError, Kind
from dragoman.operations import Input, Output
from dragoman.services.tasks.actions.envelope import Envelope
from dragoman.services.tasks.lifecycle import TERMINAL, State
from dragoman.services.workers.protocol import Capability, EvidenceKind, Worker
from dragoman.services.workers.schemas import schema_of

Json = dict[str, Any]
PROFILE_VERSIONS: Final = ("1.0",)
# The A2A extension of a version of the profile; its number is the major version.
PROFILE_FAMILY: Final = "urn:dragoman:contracts-profile:"
PROFILE_EXTENSION: Final = f"{PROFILE_FAMILY}1"
PROFILE_PATH: Final = "/.well-known/contracts-profile.json"
PROFILE_HEADER: Final = b"contracts-profile-version"

_SHOWS: Final = {
    EvidenceKind.DOCUMENT: "A document as it was made or used.",
    EvidenceKind.SIGNATURE: "A signature, or the signed document.",
    EvidenceKind.APPROVAL: "The decision of an approver.",
    EvidenceKind.AUDIT: "A record of the audit chain.",
    EvidenceKind.CITATION: "A source that a judgment relies on.",
}


class ProfileVersionUnsupported(DragomanError):
    """This version of the contracts profile is not supported; the details name those that are."""

    kind, code = Kind.INVALID, "PROFILE_VERSION_UNSUPPORTED"

    def __init__(self, version: str) -> None:
        super().__init__(
            f"the contracts profile {version[:50]!r} is not supported; use {' or '.join(PROFILE_VERSIONS)}",
            wanted=version[:50],
            supported=list(PROFILE_VERSIONS),
        )


class ShowProfile(Input):
    """Names the version of the profile to show."""

    version: str | None = Field(
        None, max_length=50, description="The newest version if none is named; `1` is the newest 1.x."
    )


class ProfileAction(Output):
    """An action that can be delegated."""

    action: str
    version: str
    summary: str
    required: bool = Field(
        description="Whether it is part of the core of the profile; else it is an optional extension."
    )
    sensitive: bool = Field(description="Whether it requires the governance mode `approved`.")
    timeout_s: float
    input_schema: Json


class GovernanceMode(Output):
    """A way in which actions are governed, and the actions that are."""

    mode: str
    description: str
    needs: list[str]
    actions: list[str]


class EvidenceSemantics(Output):
    """The kinds of evidence of performed actions, and how to check them."""

    kinds: dict[str, str]
    fields: dict[str, str]
    digest: str


class Endpoint(Output):
    """An address that takes delegated tasks."""

    protocol: str
    binding: str
    version: str | None = None
    url: str


class ContractsProfile(Output):
    """The actions that can be delegated to this server, and the rules for them."""

    profile: str
    profile_version: str
    supported_versions: list[str]
    actions: list[ProfileAction]
    governance_modes: list[GovernanceMode]
    evidence: EvidenceSemantics
    endpoints: list[Endpoint]
    envelope_version: str
    envelope_schema: Json
    states: list[str]
    terminal_states: list[str]
    idempotency: dict[str, str]


Endpoints = Callable[[str], Sequence[Endpoint]]


def negotiate_profile(requested: str | None) -> str:
    """Return the version to use: the one that was named, the newest of a major version, or the newest.

    Raises:
        ProfileVersionUnsupported: no supported version fits.
    """
    requested = (requested or "").strip()
    for version in reversed(PROFILE_VERSIONS):
        if not requested or requested in (version, version.partition(".")[0]):
            return version
    raise ProfileVersionUnsupported(requested)


def check_stated_profile() -> None:
    """Check the version in the headers of the current request, if it has one.

    Raises:
        ProfileVersionUnsupported: the version is not supported.
    """
    if (request := current_request()) is not None:
        negotiate_profile(request.headers.get(PROFILE_HEADER))


class ProfileService:
    """Shows the profile of this server, which its own workers declare; `capability.list` has that of a tenant."""

    def __init__(self, built_in: Sequence[Worker], *, endpoints: Endpoints, here: Callable[[], str]) -> None:
        by_action = {each.action: each for worker in reversed(built_in) for each in worker.capabilities}
        self._capabilities = [by_action[action] for action in sorted(by_action)]
        self._endpoints = endpoints
        self._here = here

    async def show(self, caller: Caller, query: ShowProfile) -> ContractsProfile:
        """Return the profile, with the addresses under which the caller reached this server.

        Raises:
            ProfileVersionUnsupported: the version is not supported.
        """
        del caller
        check_stated_profile()
        return self.profile(query.version, self._here())

    def profile(self, requested: str | None, base_url: str) -> ContractsProfile:
        """Return the profile with addresses below `base_url`; it needs no caller.

        Raises:
            ProfileVersionUnsupported: the version is not supported.
        """
        version = negotiate_profile(requested)
        return ContractsProfile(
            profile=PROFILE_EXTENSION,
            profile_version=version,
            supported_versions=list(PROFILE_VERSIONS),
            actions=[_action(capability) for capability in self._capabilities],
            governance_modes=_modes(self._capabilities),
            evidence=_EVIDENCE,
            endpoints=list(self._endpoints(base_url)),
            envelope_version="1",
            envelope_schema=schema_of(Envelope),
            states=[state.value for state in State],
            terminal_states=sorted(TERMINAL),
            idempotency={
                "scope": "tenant and actor.id, the same on every endpoint",
                "digest": "RFC 8785 over the envelope without request and governance, SHA-256",
                "repeated": "the same digest gives the same task, marked as replayed",
                "conflict": "another digest is IDEMPOTENCY_CONFLICT, and names the first task",
            },
        )


def _action(capability: Capability) -> ProfileAction:
    return ProfileAction(
        action=capability.action,
        version=capability.version,
        summary=capability.summary,
        required=capability.required,
        sensitive=capability.sensitive,
        timeout_s=capability.timeout_s,
        input_schema=schema_of(capability.input),
    )


def _modes(capabilities: Sequence[Capability]) -> list[GovernanceMode]:
    return [
        GovernanceMode(
            mode="checked",
            description="Checked against the policies in force at submission and at execution; the stricter applies.",
            needs=[],
            actions=[each.action for each in capabilities if not each.sensitive],
        ),
        GovernanceMode(
            mode="approved",
            description="As `checked`, and only under policies and approvals that the envelope names. An approval is "
            "bound to exactly what was shown, is used once, expires, and is stale when the target or a policy changes.",
            needs=["governance.policy_refs", "governance.approval_refs"],
            actions=[each.action for each in capabilities if each.sensitive],
        ),
        GovernanceMode(
            mode="dry_run",
            description="With request.dry_run the task passes every guard and changes nothing.",
            needs=[],
            actions=[each.action for each in capabilities],
        ),
    ]


_EVIDENCE: Final = EvidenceSemantics(
    kinds={kind.value: _SHOWS[kind] for kind in EvidenceKind},
    fields={
        "kind": "what it shows",
        "sha256": "of the bytes at uri, in hexadecimal",
        "uri": "where it can be read",
        "captured_at": "when the worker saw it",
    },
    digest="SHA-256",
)
