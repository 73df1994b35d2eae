"""`dragoman knowledge` in a project, as a person and a pipeline use it."""

import json
import subprocess
from pathlib import Path

import jsonschema
import pytest

from tests.doors.rest.calling import new_tenant
from tests.harness import Server

POLICY = """---
id: policy-http
type: policy
title: One HTTP client
severity: block
constraints:
  - {operator: must_not_use, target: import, pattern: requests, message: Use httpx.}
  - {operator: must_not_use, target: dependency, pattern: requests, severity: warn}
  - {operator: must_exist, target: file, pattern: README.md, severity: warn}
---

Use **httpx** for everything.
"""


TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
# What the standard's own schema demands of the parts that are written.
SARIF = {
    "type": "object", "required": ["version", "runs"], "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string"}, "version": {"const": "2.1.0"},
        "runs": {"type": "array", "minItems": 1, "items": {
            "type": "object", "required": ["tool", "results"], "additionalProperties": False, "properties": {
                "tool": {"type": "object", "required": ["driver"], "properties": {"driver": {
                    "type": "object", "required": ["name"], "properties": {
                        "name": {"type": "string"}, "version": {"type": "string"},
                        "rules": {"type": "array", "uniqueItems": True, "items": {
                            "type": "object", "required": ["id"],
                            "properties": {"id": {"type": "string"}, "shortDescription": TEXT}}}}}}},
                "results": {"type": "array", "items": {
                    "type": "object", "required": ["message"], "additionalProperties": False, "properties": {
                        "ruleId": {"type": "string"}, "ruleIndex": {"type": "integer", "minimum": 0},
                        "level": {"enum": ["none", "note", "warning", "error"]}, "message": TEXT,
                        "properties": {"type": "object"},
                        "locations": {"type": "array", "items": {
                            "type": "object", "properties": {"physicalLocation": {
                                "type": "object", "required": ["artifactLocation"], "properties": {
                                    "artifactLocation": {"type": "object", "required": ["uri"], "properties": {
                                        "uri": {"type": "string", "pattern": "^[^ \\\\]+$"}}},
                                    "region": {"type": "object", "properties": {
                                        "startLine": {"type": "integer", "minimum": 1}}}}}}}}}}},
            }}},
    },
}  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a clean commit and a change that is not."""
    (tmp_path / "a.py").write_text("import httpx\n")
    (tmp_path / ".gitignore").write_text("ignored.py\n")
    (tmp_path / "ignored.py").write_text("import requests\n")
    (tmp_path / "picture.bin").write_bytes(b"\0\1import requests")
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    (tmp_path / "b.py").write_text("import os\nimport requests\n")
    (tmp_path / "requirements.txt").write_text("requests==2.0\n")
    return tmp_path


@pytest.fixture
def tenant(server: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tenant that has accepted the policy, all of it by the command line."""
    slug = str(new_tenant(server)["slug"])
    document = tmp_path_factory.mktemp("policy") / "policy.md"
    document.write_text(POLICY)
    for words in (["propose", str(document)], ["accept", "policy-http", "--reason", "agreed"]):
        done = server.cli("knowledge", *words, "--tenant", slug)
        assert done.returncode == 0, done.stderr
    return slug


def test_check_prints_like_a_linter_and_fails_on_a_block(server: Server, tenant: str, project: Path) -> None:
    checked = server.cli("knowledge", "check", str(project), "--tenant", tenant)

    lines = checked.stdout.splitlines()
    assert checked.returncode == 1, checked.stderr
    assert lines[0].startswith("README.md  warn")
    assert lines[1].startswith("b.py:2  block  Use httpx.  [policy-http] One HTTP client")
    assert lines[2].startswith("requirements.txt:1  warn")
    assert lines[3] == "violated  1 block, 2 warn, 0 info in 4 files"


def test_check_of_a_diff_looks_at_what_changed_alone(server: Server, tenant: str, project: Path) -> None:
    (project / "b.py").unlink()
    (project / "a.py").write_text("import requests\n")

    checked = server.cli("knowledge", "check", str(project), "--diff", "HEAD", "--json", "--tenant", tenant)

    report = json.loads(checked.stdout)
    assert checked.returncode == 1
    assert [(one["location"], one["severity"]) for one in report["violations"]] == [
        ({"file": "a.py", "line": 1}, "block")
    ]


def test_check_writes_sarif(server: Server, tenant: str, project: Path) -> None:
    checked = server.cli("knowledge", "check", str(project), "--format", "sarif", "--tenant", tenant)

    log = json.loads(checked.stdout)
    run = log["runs"][0]
    assert log["version"] == "2.1.0"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["policy-http"]
    block = next(result for result in run["results"] if result["level"] == "error")
    assert (block["ruleId"], block["message"]["text"]) == ("policy-http", "Use httpx.")
    assert block["locations"] == [
        {"physicalLocation": {"artifactLocation": {"uri": "b.py"}, "region": {"startLine": 2}}}
    ]


def test_sarif_has_the_shape_that_its_readers_demand(server: Server, tenant: str, project: Path) -> None:
    (project / "two words.py").write_text("import requests\n")

    checked = server.cli("knowledge", "check", str(project), "--format", "sarif", "--tenant", tenant)

    log = json.loads(checked.stdout)
    jsonschema.validate(log, SARIF, format_checker=jsonschema.FormatChecker())
    uris = [place["physicalLocation"]["artifactLocation"]["uri"]
            for result in log["runs"][0]["results"] for place in result["locations"]]  # fmt: skip
    assert "two%20words.py" in uris
    rules = log["runs"][0]["tool"]["driver"]["rules"]
    assert {rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in log["runs"][0]["results"]} == {True}


def test_check_passes_when_nothing_blocks(server: Server, tenant: str, project: Path) -> None:
    (project / "b.py").unlink()

    checked = server.cli("knowledge", "check", str(project), "--tenant", tenant)

    assert checked.returncode == 0
    assert checked.stdout.splitlines()[-1].startswith("passed  0 block, 2 warn")


def test_a_revision_that_is_none_is_wrong_usage(server: Server, tenant: str, project: Path) -> None:
    checked = server.cli("knowledge", "check", str(project), "--diff", "nothing", "--tenant", tenant)

    assert checked.returncode == 2


def test_query_show_history_and_diff_can_be_read(server: Server, tenant: str) -> None:
    found = server.cli("knowledge", "query", "--query", "http client", "--tenant", tenant)
    shown = server.cli("knowledge", "show", "policy-http", "--include-history", "--tenant", tenant)
    as_json = server.cli("knowledge", "history", "policy-http", "--json", "--tenant", tenant)
    diff = server.cli("knowledge", "diff", "policy-http", "--tenant", tenant)

    assert "policy-http" in found.stdout
    assert "Use httpx for everything." in shown.stdout
    assert len(json.loads(as_json.stdout)["changes"]) == 2
    assert "status: accepted" in diff.stdout
