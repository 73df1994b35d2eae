"""Policies are files: the built-in ones decide, others replace them, broken ones stop the start."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest

from dragoman.context import Caller, PrincipalType, Role, TenantId
from dragoman.infra.auth.authority import Authority, PolicyError
from tests.harness import DRAGOMAN, InProcess, Server
from tests.patience import PATIENCE_S
from tests.tenants import beside, new_tenant


@dataclass(frozen=True)
class Asked:
    name: str
    permission: str


LIST_USERS = Asked("user.list", "manage:users")


def caller(*roles: Role, scopes: frozenset[str] | None = None, kind: PrincipalType = PrincipalType.USER) -> Caller:
    return Caller(TenantId(UUID(int=1)), "demo", "ada", kind, frozenset(roles), "c", 0.0, scopes)


def test_a_refusal_says_which_policy_forbids() -> None:
    authority = Authority.open()

    answers = [
        authority.refusal(caller(Role.ORG_ADMIN), LIST_USERS),
        authority.refusal(caller(Role.VIEWER), LIST_USERS),
        authority.refusal(caller(Role.ORG_ADMIN, scopes=frozenset({"read:costs"})), LIST_USERS),
        authority.refusal(caller(Role.VIEWER, Role.ORG_ADMIN), LIST_USERS),
        authority.refusal(caller(), LIST_USERS),
    ]

    limited = "credential-is-limited-to-its-scopes"
    assert answers == [None, "no policy permits it", limited, None, "no policy permits it"]


def test_an_answer_for_one_caller_is_never_given_to_another() -> None:
    """What is remembered is remembered for exactly the same roles, scopes, kind and operation."""
    authority = Authority({"a.cedar": 'permit (principal, action, resource) when { principal.type == "agent" };'})

    answers = [
        authority.refusal(caller(Role.AGENT, kind=kind), LIST_USERS) is None
        for kind in (PrincipalType.AGENT, PrincipalType.USER, PrincipalType.AGENT, PrincipalType.SERVICE)
    ]

    assert answers == [True, False, True, False]


def test_a_policy_that_fails_to_evaluate_refuses() -> None:
    """Cedar skips such a policy; a forbid that is skipped would open the door."""
    authority = Authority({
        "a.cedar": "permit (principal, action, resource);",
        "b.cedar": "forbid (principal, action, resource) when { principal.nothing == 1 };",
    })  # fmt: skip

    refusal = authority.refusal(caller(Role.SUPER_ADMIN), LIST_USERS)

    assert refusal is not None
    assert refusal.startswith("a policy failed")


def test_policies_of_ones_own_replace_the_built_in_ones(server: Server, tmp_path: Path) -> None:
    (tmp_path / "ours.cedar").write_text(
        '@id("viewers-rule") permit (principal in Role::"viewer", action, resource);\n'
        '@id("nobody-lists-keys") forbid (principal, action == Action::"key.list", resource);\n'
    )
    slug = new_tenant(server)
    statuses: dict[str, list[int]] = {}
    with InProcess(beside(server) | {"DRAGOMAN_POLICY_DIR": str(tmp_path)}) as running:
        for role in ("viewer", "org_admin"):
            with running.client(server.token(tenant=slug, role=role)) as client:
                statuses[role] = [client.get(path).status_code for path in ("/api/users", "/api/keys")]
        reasons = {event["reason"] for event in running.security_events()}

    assert statuses == {"viewer": [200, 403], "org_admin": [403, 403]}
    assert reasons == {"nobody-lists-keys", "no policy permits it"}


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"good.cedar": "permit (principal, action, resource);", "bad.cedar": "permit (nobody"}, "bad.cedar"),
        ({"notes.txt": "not a policy"}, "DRAGOMAN_POLICY_DIR"),
        ({"latin.cedar": "// \udce9"}, "DRAGOMAN_POLICY_DIR"),
    ],
    ids=["broken", "none", "not UTF-8"],
)
def test_a_server_does_not_start_on_policies_that_cannot_be_used(
    server: Server, tmp_path: Path, files: dict[str, str], named: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    environment = server.environment | beside(server)
    environment |= {"DRAGOMAN_POLICY_DIR": str(tmp_path), "DRAGOMAN_DATA_DIR": str(tmp_path / "data")}

    ended = subprocess.run(
        [DRAGOMAN, "serve"], env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )

    assert ended.returncode != 0
    assert named in ended.stderr
    assert "good.cedar" not in ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr


def test_a_broken_policy_is_named_alone() -> None:
    with pytest.raises(PolicyError, match=r"policies in b\.cedar"):
        Authority({"a.cedar": "permit (principal, action, resource);", "b.cedar": "perhaps"}).check()
