"""The contracts profile: what can be delegated here, written from what is registered, so that it cannot lie."""

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
# What the versions of a profile are called as extensions of A2A; the number is that of the major version.
PROFILE_FAMILY: Final = "urn:dragoman:contracts-profile:"
PROFILE_EXTENSION: Final = f"{PROFILE_FAMILY}1"
PROFILE_PATH: Final = "/.well-known/contracts-profile.json"
PROFILE_HEADER: Final = b"contracts-profile-version"

_SHOWS: Final = {
    EvidenceKind.DOCUMENT: "A document as it was made or used.",
    EvidenceKind.SIGNATURE: "A signature, or the signed document.",
    EvidenceKind.APPROVAL: "A decision of somebody who had to approve.",
    EvidenceKind.AUDIT: "A record of the audit chain.",
    EvidenceKind.CITATION: "What a judgment rests on.",
}


class ProfileVersionUnsupported(DragomanError):
    """A version of the contracts profile that is not spoken here; the details name those that are."""

    kind, code = Kind.INVALID, "PROFILE_VERSION_UNSUPPORTED"

    def __init__(self, wanted: str) -> None:
        super().__init__(
            f"the contracts profile {wanted[:50]!r} is not supported; use {' or '.join(PROFILE_VERSIONS)}",
            wanted=wanted[:50],
            supported=list(PROFILE_VERSIONS),
        )


class ShowProfile(Input):
    """Which version of the profile is wanted."""

    version: str | None = Field(None, max_length=50, description="The newest when none is named; `1` is any 1.x.")


class ProfileAction(Output):
    """An action that can be delegated."""

    action: str
    version: str
    summary: str
    required: bool = Field(description="Of the core of the profile; else an optional extension.")
    sensitive: bool = Field(description="Needs the governance mode `approved`.")
    timeout_s: float
    input_schema: Json


class GovernanceMode(Output):
    """How an action is governed, and which actions are."""

    mode: str
    description: str
    needs: list[str]
    actions: list[str]


class EvidenceSemantics(Output):
    """What evidence there is for what was done, and how it is checked."""

    kinds: dict[str, str]
    fields: dict[str, str]
    digest: str


class Endpoint(Output):
    """Where tasks are delegated to."""

    protocol: str
    binding: str
    version: str | None = None
    url: str


class ContractsProfile(Output):
    """What can be delegated here, and under which rules."""

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


def negotiate_profile(wanted: str | None) -> str:
    """The version to speak: the one that was named, the newest of a major version, or the newest.

    Raises:
        ProfileVersionUnsupported: it is not spoken here.
    """
    asked = (wanted or "").strip()
    for version in reversed(PROFILE_VERSIONS):
        if not asked or asked in (version, version.partition(".")[0]):
            return version
    raise ProfileVersionUnsupported(asked)


def check_stated_profile() -> None:
    """Hold the version that the request at hand states, if it does, against what is spoken here.

    Raises:
        ProfileVersionUnsupported: it is not spoken here.
    """
    if (request := current_request()) is not None:
        negotiate_profile(request.headers.get(PROFILE_HEADER))


class ProfileBook:
    """Shows the profile of this server: what its own workers declare. What a tenant may is in `capability.list`."""

    def __init__(self, built_in: Sequence[Worker], *, endpoints: Endpoints, here: Callable[[], str]) -> None:
        found = {one.action: one for worker in reversed(built_in) for one in worker.capabilities}
        self._capabilities = [found[action] for action in sorted(found)]
        self._endpoints = endpoints
        self._here = here

    async def show(self, caller: Caller, wanted: ShowProfile) -> ContractsProfile:
        """The profile, with the addresses under which the caller found this server.

        Raises:
            ProfileVersionUnsupported: the version is not spoken here.
        """
        del caller
        check_stated_profile()
        return self.profile(wanted.version, self._here())

    def profile(self, wanted: str | None, base_url: str) -> ContractsProfile:
        """The same for anybody.

        Raises:
            ProfileVersionUnsupported: the version is not spoken here.
        """
        version = negotiate_profile(wanted)
        return ContractsProfile(
            profile=PROFILE_EXTENSION,
            profile_version=version,
            supported_versions=list(PROFILE_VERSIONS),
            actions=[_action(one) for one in self._capabilities],
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


def _action(one: Capability) -> ProfileAction:
    return ProfileAction(
        action=one.action,
        version=one.version,
        summary=one.summary,
        required=one.required,
        sensitive=one.sensitive,
        timeout_s=one.timeout_s,
        input_schema=schema_of(one.input),
    )


def _modes(capabilities: Sequence[Capability]) -> list[GovernanceMode]:
    return [
        GovernanceMode(
            mode="checked",
            description="Held against the policies in force at submission and again at execution; the stricter wins.",
            needs=[],
            actions=[one.action for one in capabilities if not one.sensitive],
        ),
        GovernanceMode(
            mode="approved",
            description="The same, and only under policies and approvals that the envelope names. Approvals are bound "
            "to exactly what was shown, used once, expire, and are stale when the target or a policy moves.",
            needs=["governance.policy_refs", "governance.approval_refs"],
            actions=[one.action for one in capabilities if one.sensitive],
        ),
        GovernanceMode(
            mode="dry_run",
            description="request.dry_run goes through every guard and changes nothing.",
            needs=[],
            actions=[one.action for one in capabilities],
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
