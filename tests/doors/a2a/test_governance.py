"""Governance as an agent meets it, over A2A 1.0 and over the plain paths of 0.1."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.doors.a2a.calling import A2A
from tests.doors.a2a.tool_calls import Call, by_message, by_seed_path
from tests.doors.rest.calling import data, new_tenant
from tests.harness import Server

NO_PICKLE = {"operator": "must_not_use", "target": "import", "pattern": "pickle", "message": "Use JSON."}
CLEAN, DIRTY = "import json\n", "import json\nimport pickle\n"
NO_DEPLOY = '@id("freeze") forbid (principal in Role::"org_admin", action == Action::"deploy", resource);'
TOMORROW = (datetime.now(UTC) + timedelta(days=1)).isoformat()


def enact(call: Call, policy_id: str, *constraints: dict[str, Any], **fields: Any) -> None:
    """Put a policy in force."""
    proposed = call(
        "knowledge_propose",
        type="policy",
        id=policy_id,
        title=policy_id.replace("-", " "),
        content="Why it is so.",
        constraints=list(constraints),
        **fields,
    )
    assert proposed.get("status") == "proposed", proposed
    assert call("knowledge_accept", id=policy_id)["status"] == "accepted"


def file(content: str, path: str = "src/app.py") -> dict[str, Any]:
    return {"path": path, "content": content}


@pytest.fixture(params=[by_message, by_seed_path], ids=["1.0", "0.1"])
def call(request: pytest.FixtureRequest, served: Server) -> Call:
    """A caller in a tenant of its own."""
    return request.param(A2A(served, tenant=new_tenant(served)["slug"]))


@pytest.mark.req("MKS-GOV-1", "A2A-SK-3")
def test_validate_names_the_policy_the_place_and_the_reason(call: Call) -> None:
    enact(call, "no-pickle", NO_PICKLE, severity="block", metadata={"mode": "mandatory"})

    refused = call("governance_validate", context=file(DIRTY), target_layer="project")
    passed = call("governance_validate", context=file(CLEAN), target_layer="project")

    assert (refused["valid"], passed["valid"], passed["violations"]) == (False, True, [])
    (violation,) = refused["violations"]
    assert violation.pop("fingerprint")
    assert violation == {
        "policy_id": "no-pickle",
        "policy_title": "no pickle",
        "layer": "company",
        "mandatory": True,
        "constraint": "must_not_use import pickle",
        "severity": "block",
        "message": "Use JSON.",
        "location": {"file": "src/app.py", "line": 2},
    }
    assert refused["policy_version"] == passed["policy_version"]


def test_validate_judges_each_kind_of_context(call: Call) -> None:
    enact(
        call,
        "kinds",
        {"operator": "must_not_use", "target": "dependency", "pattern": "left-pad"},
        {"operator": "must_exist", "target": "dependency", "pattern": "structlog"},
        NO_PICKLE,
        {"operator": "must_match", "target": "config", "path": "tls.enabled", "pattern": "true"},
    )

    def broken(**context: Any) -> list[str]:
        found = call("governance_validate", context=context, target_layer="company")["violations"]
        return sorted(one["constraint"] for one in found)

    assert broken(dependencies=["left-pad"]) == [
        "must_exist dependency structlog",
        "must_not_use dependency left-pad",
    ]
    assert broken(dependencies=[{"name": "structlog", "version": "26.1.0"}]) == []
    assert broken(imports=["pickle"]) == ["must_not_use import pickle"]
    assert broken(config={"tls": {"enabled": False}}) == ["must_match config true at tls.enabled"]
    assert broken(config={"tls": {"enabled": True}}) == []


def test_a_policy_of_one_team_does_not_bind_another(call: Call) -> None:
    enact(call, "team-rule", NO_PICKLE, layer="team", layer_id="search")

    def valid(layer: str, **ids: str) -> bool:
        return call("governance_validate", context=file(DIRTY), target_layer=layer, ids=ids)["valid"]

    assert not valid("team", team_id="search")
    assert not valid("project", team_id="search")
    assert valid("team", team_id="billing")
    assert valid("org")


def test_a_project_cannot_lessen_what_is_mandatory_above_it(call: Call) -> None:
    enact(call, "no-pickle", NO_PICKLE, severity="block", metadata={"mode": "mandatory"})
    enact(
        call,
        "pickle-is-fine-here",
        {**NO_PICKLE, "severity": "info"},
        layer="project",
        layer_id="shop",
        metadata={"extends": "no-pickle", "merge": "override"},
    )

    found = call("governance_validate", context=file(DIRTY), target_layer="project", ids={"project_id": "shop"})[
        "violations"
    ]

    assert [(one["policy_id"], one["severity"]) for one in found] == [("no-pickle", "block")]


def test_a_policy_forbids_an_action_to_those_it_names(call: Call) -> None:
    enact(
        call,
        "agents-deploy-nothing",
        severity="block",
        metadata={"cedar": NO_DEPLOY},
    )

    refused = call("governance_validate", context={"action": "deploy"}, target_layer="project")
    passed = call("governance_validate", context={"action": "plan"}, target_layer="project")

    assert [(one["policy_id"], one["severity"]) for one in refused["violations"]] == [
        ("agents-deploy-nothing", "block")
    ]
    assert passed["valid"]


def test_what_a_policy_says_wrongly_is_reported_and_taken_in_the_stricter_way(call: Call) -> None:
    enact(call, "garbled", NO_PICKLE, metadata={"mode": "sometimes"})

    found = call("governance_validate", context=file(DIRTY), target_layer="company")

    assert [(one["policy_id"], one["mandatory"]) for one in found["violations"]] == [("garbled", True)]
    assert [one["policy_id"] for one in found["problems"]] == ["garbled"]


@pytest.mark.req("MKS-GOV-2", "A2A-SK-3")
def test_drift_is_failed_weight_over_applicable_weight_and_says_what_changed(call: Call) -> None:
    enact(call, "no-pickle", NO_PICKLE, severity="block")
    enact(call, "has-readme", {"operator": "must_exist", "target": "file", "pattern": "README.md"}, severity="warn")
    enact(call, "no-lodash", {"operator": "must_not_use", "target": "dependency", "pattern": "lodash"}, severity="info")

    def check(*files: dict[str, Any]) -> dict[str, Any]:
        return call("governance_drift_check", project="shop", context={"files": list(files)})

    first = check(file(DIRTY), file("# Shop\n", "README.md"))
    second = check(file(DIRTY))
    third = check(file(CLEAN), file("# Shop\n", "README.md"))

    assert (first["drift_score"], first["failed_weight"], first["applicable_weight"]) == (0.6667, 1.0, 1.5)
    assert [one["policy_id"] for one in first["idle_rules"]] == ["no-lodash"]
    assert first["confidence"] == round(1.5 / 1.6, 4)
    assert (first["passed"], first["since"], first["band"]) == (False, None, "high")
    assert (second["passed"], len(second["since"]["new"]), second["drift_score"]) == (False, 1, 1.0)
    assert (third["passed"], len(third["since"]["fixed"]), third["drift_score"]) == (True, 2, 0.0)


def test_a_check_is_compared_with_the_best_state_that_passed_and_not_with_the_last(call: Call) -> None:
    enact(call, "no-pickle", NO_PICKLE, severity="block")
    enact(call, "no-print", {"operator": "must_not_match", "target": "code", "pattern": "print"}, severity="warn")

    def check(content: str) -> tuple[bool, int]:
        said = call("governance_drift_check", project="shop", context={"files": [file(content)]})
        return said["passed"], len(said["regressions"])

    assert check(DIRTY) == (False, 1)
    assert check(DIRTY) == (False, 1)
    assert check("print(1)\n") == (True, 0)
    assert check("print(1)\nimport pickle\n") == (False, 1)
    assert check("print(1)\nimport pickle\n") == (False, 1)
    assert check("print(1)\n") == (True, 0)
    assert check(CLEAN) == (True, 0)
    assert check("print(1)\n") == (False, 1)


def test_a_check_of_one_file_says_nothing_of_the_others(call: Call) -> None:
    enact(call, "no-print", {"operator": "must_not_match", "target": "code", "pattern": "print"}, severity="warn")
    both = [file("print(1)\n", "src/a.py"), file("print(1)\n", "src/b.py")]

    def passed(**context: Any) -> bool:
        return call("governance_drift_check", project="shop", context=context)["passed"]

    assert passed(files=both)
    assert passed(**file("", "src/a.py"))
    assert not passed(files=both)
    assert passed(files=both[1:])


def test_what_was_checked_last_is_judged_anew_when_nothing_is_given(call: Call) -> None:
    unknown = call("governance_drift_check", project="shop")
    call("governance_drift_check", project="shop", context={"files": [file(DIRTY)]})
    enact(call, "no-pickle", NO_PICKLE, severity="block")

    again = call("governance_drift_check", project="shop")

    assert (unknown["drift_score"], unknown["applicable_weight"]) == (0.0, 0.0)
    assert (again["drift_score"], again["since"]["policies_changed"], again["passed"]) == (1.0, True, False)


def test_a_suppression_names_who_answers_and_ends_when_it_is_lifted(call: Call) -> None:
    enact(call, "no-pickle", NO_PICKLE, severity="block")
    context = {"files": [file(DIRTY)]}
    made = call(
        "governance_suppress", project="shop", policy_id="no-pickle", reason="until the rewrite", expires_at=TOMORROW
    )

    held = call("governance_drift_check", project="shop", context=context)
    elsewhere = call("governance_drift_check", project="bank", context=context)
    call("governance_unsuppress", suppression_id=made["id"])
    lifted = call("governance_drift_check", project="shop", context=context)

    assert (held["drift_score"], held["violations"]) == (0.0, [])
    assert [(one["owner"], one["reason"]) for one in held["suppressed"]] == [("admin", "until the rewrite")]
    assert (elsewhere["drift_score"], lifted["drift_score"]) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("governance_validate", {"context": {}, "target_layer": "galaxy"}, "target_layer"),
        ("governance_validate", {"context": {"content": "x"}, "target_layer": "company"}, "context"),
        ("governance_validate", {"target_layer": "company"}, "context"),
        ("governance_drift_check", {"project": ""}, "project"),
        ("governance_drift_check", {"project": "../x"}, "project"),
        (
            "governance_suppress",
            {"project": "shop", "policy_id": "p", "reason": "r", "expires_at": "2020-01-01T00:00:00Z"},
            "expires_at",
        ),
        ("governance_suppress", {"project": "shop", "policy_id": "p", "expires_at": TOMORROW}, "reason"),
    ],
)
@pytest.mark.req("MKS-ERR-1")
def test_wrong_input_is_refused_by_the_name_of_its_field(
    call: Call, tool: str, arguments: dict[str, Any], field: str
) -> None:
    error = call(tool, **arguments)["error"]

    assert error["code"] == "INVALID_PARAMS"
    assert [one["field"] for one in error["details"]["errors"]] == [field]


@pytest.mark.req("MKS-ERR-2")
def test_one_who_may_only_read_cannot_suppress(served: Server) -> None:
    viewer = by_message(A2A(served, role="viewer"))

    error = viewer("governance_suppress", project="shop", policy_id="p", reason="r", expires_at=TOMORROW)["error"]

    assert error["code"] == "UNAUTHORIZED"


@pytest.mark.req("MKS-TEN-2")
def test_another_tenant_sees_neither_policies_nor_decisions_nor_suppressions(call: Call, rival: A2A) -> None:
    enact(call, "no-pickle", NO_PICKLE, severity="block")
    call("governance_drift_check", project="shop", context={"files": [file(DIRTY)]})
    made = call("governance_suppress", project="shop", policy_id="no-pickle", reason="mine", expires_at=TOMORROW)
    other = by_message(rival)

    assert other("governance_validate", context=file(DIRTY), target_layer="project")["valid"]
    assert other("governance_drift_check", project="shop")["since"] is None
    assert other("governance_suppressions")["items"] == []
    assert other("governance_unsuppress", suppression_id=made["id"])["error"]["code"] == "NOT_FOUND"


def test_replay_lists_what_would_flip_under_other_policies(served: Server) -> None:
    slug = new_tenant(served)["slug"]
    call = by_message(A2A(served, tenant=slug))
    enact(call, "no-pickle", NO_PICKLE, severity="block")
    before = call("governance_policies")["policy_version"]
    decided = call("governance_validate", context=file("import telnetlib\n"), target_layer="project")
    call("governance_validate", context=file(CLEAN), target_layer="project")
    enact(call, "no-telnet", {**NO_PICKLE, "pattern": "telnetlib"}, severity="block")

    now = served.cli("governance", "replay", "--policy", "main", "--json", "--tenant", slug)
    then = served.cli("governance", "replay", "--policy", before, "--json", "--tenant", slug)
    nowhere = served.cli("governance", "replay", "--policy", "nowhere", "--json", "--tenant", slug)

    flips = json.loads(now.stdout)
    assert (flips["replayed"], [one["decision_id"] for one in flips["flips"]]) == (2, [decided["decision_id"]])
    assert [(one["was_valid"], one["would_be_valid"]) for one in flips["flips"]] == [(True, False)]
    assert json.loads(then.stdout)["flips"] == []
    assert (nowhere.returncode, json.loads(nowhere.stdout)["error"]["code"]) == (1, "NOT_FOUND")


@pytest.mark.req("MKS-GOV-1", "MKS-GOV-2")
def test_the_shell_validates_and_measures_drift(served: Server) -> None:
    slug = new_tenant(served)["slug"]
    enact(by_message(A2A(served, tenant=slug)), "no-pickle", NO_PICKLE, severity="block")

    validated = served.cli(
        "governance", "validate", "--tenant", slug, "--json", "--target-layer", "project",
        "--context", json.dumps(file(DIRTY)),
    )  # fmt: skip
    drifted = served.cli(
        "governance", "drift-check", "--tenant", slug, "--json", "--project", "shop",
        "--context", json.dumps({"files": [file(DIRTY)]}),
    )  # fmt: skip

    assert (validated.returncode, json.loads(validated.stdout)["valid"]) == (1, False)
    assert (drifted.returncode, json.loads(drifted.stdout)["drift_score"]) == (1, 1.0)


def test_decisions_are_listed_with_the_revision_they_were_made_under(served: Server) -> None:
    slug = new_tenant(served)["slug"]
    call = by_message(A2A(served, tenant=slug))
    enact(call, "no-pickle", NO_PICKLE, severity="block")
    revision = call("governance_validate", context=file(DIRTY), target_layer="project")["policy_version"]
    call("governance_drift_check", project="shop", context={"files": [file(DIRTY)]})

    with served.client(served.token(tenant=slug)) as client:
        listed = data(client.get("/api/governance/decisions"))
        of_project = data(client.get("/api/governance/decisions", params={"project": "shop"}))

    assert [(one["kind"], one["valid"], one["policy_version"]) for one in listed] == [
        ("drift", False, revision),
        ("validate", False, revision),
    ]
    assert [one["drift_score"] for one in of_project] == [1.0]


def test_a_decision_is_replayed_with_the_suppressions_and_the_roles_of_its_time(served: Server) -> None:
    slug = new_tenant(served)["slug"]
    call = by_message(A2A(served, tenant=slug))
    operator = by_message(A2A(served, tenant=slug, role="operator", user="ann"))
    context = {"files": [file(DIRTY)]}
    answers = {"project": "shop", "policy_id": "no-pickle", "reason": "known", "expires_at": TOMORROW}
    enact(call, "no-pickle", NO_PICKLE, severity="block")
    enact(call, "not-ann", metadata={"cedar": 'forbid (principal == Principal::"ann", action, resource);'})
    enact(call, "admins", metadata={"cedar": 'forbid (principal in Role::"operator", action, resource);'})

    before = call("governance_drift_check", project="shop", context=context)["violations"]
    made = call("governance_suppress", **answers)
    meanwhile = call("governance_drift_check", project="shop", context=context)["violations"]
    call("governance_unsuppress", suppression_id=made["id"])
    refused = operator("governance_validate", context={"action": "deploy"}, target_layer="company")["valid"]
    call("governance_suppress", **answers)
    again = call("governance_replay", policy="main")

    assert (len(before), meanwhile, refused) == (1, [], False)
    assert (again["replayed"], again["flips"]) == (3, [])
