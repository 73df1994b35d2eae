"""A change checked against what is known, and a repository made ready to be asked: through a server, from outside."""

import subprocess
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import httpx
from tests.harness import Server

from bench.subject import Effort
from bench.table import Line, Outcome

FILES, CONSTRAINTS, ITEMS = 1_000, 100, 5_000
CHECK_S, INDEX_S = 2.0, 60.0
_PYTHON = (
    "import os\nfrom collections import deque\n\n\nclass Thing{n}:\n    def run(self) -> int:\n        return {n}\n\n"
)
_SCRIPT = "import {{ a }} from 'react';\nimport b from './other';\n\nexport const f{n} = () => a + b + {n};\n"


def run(effort: Effort) -> Outcome:
    """Check 1,000 files against 100 constraints; sync and index 5,000 items."""
    outcome = Outcome("Knowledge: check and index")
    with (
        tempfile.TemporaryDirectory() as folder,
        Server({"DRAGOMAN_KNOWLEDGE__ALLOW_FILE_REMOTES": "true", "DRAGOMAN_REQUEST_TIMEOUT_S": "300"}) as server,
        server.admin() as client,
    ):
        client.timeout = httpx.Timeout(300)
        _accept_constraints(client)
        files = _files()
        _check(client, files)  # the libraries are loaded with the first use
        checks = [_check(client, files) for _ in range(effort.rounds)]
        remote = _repository(Path(folder) / "remote")
        began = perf_counter()
        synced = _done(client.post("/api/knowledge/sync", json={"remote": str(remote), "on_conflict": "theirs"}))
        index_s = perf_counter() - began
    if synced["added"] != ITEMS:
        raise RuntimeError(f"{synced['added']} of {ITEMS} items were indexed")
    check_s = median(checks)
    outcome.lines = [
        Line(f"{FILES:,} files, {CONSTRAINTS} constraints", f"{check_s:.2f} s", target=f"< {CHECK_S:g} s",
             met=check_s < CHECK_S),
        Line(f"{ITEMS:,} items fetched and indexed", f"{index_s:.1f} s", target=f"< {INDEX_S:g} s",
             met=index_s < INDEX_S),
    ]  # fmt: skip
    outcome.figures = {"check_s": checks, "index_s": index_s}
    return outcome


def _files() -> list[dict[str, str]]:
    return [
        {"path": f"src/m{n}.{'py' if n % 2 else 'ts'}", "content": (_PYTHON if n % 2 else _SCRIPT).format(n=n) * 12}
        for n in range(FILES)
    ]


def _accept_constraints(client: httpx.Client) -> None:
    """A fifth of them each on imports, code, files and settings, in four policies; dependencies for the rest."""
    kinds = [
        {"operator": "must_not_use", "target": "import", "pattern": "forbidden{n}"},
        {"operator": "must_not_use", "target": "code", "pattern": r"\bforbidden{n}\("},
        {"operator": "must_not_exist", "target": "file", "pattern": "legacy{n}/**"},
        {"operator": "must_not_use", "target": "config", "pattern": "debug{n}"},
        {"operator": "must_not_use", "target": "dependency", "pattern": "forbidden{n}"},
    ]
    for number in range(4):
        few = range(number * 5, number * 5 + 5)
        demands = [{**kind, "pattern": kind["pattern"].replace("{n}", str(n))} for n in few for kind in kinds]
        policy = {"type": "policy", "id": f"policy-{number}", "title": f"Policy {number}", "content": "No.",
                  "constraints": demands}  # fmt: skip
        _done(client.post("/api/knowledge/propose", json=policy))
        _done(client.post(f"/api/knowledge/policy-{number}/accept", json={}))


def _check(client: httpx.Client, files: list[dict[str, str]]) -> float:
    began = perf_counter()
    report = _done(client.post("/api/knowledge/check", json={"files": files}))
    if not report["passed"] or report["summary"]["constraints"] != CONSTRAINTS:
        raise RuntimeError(f"the check is not the one that was meant: {report['summary']}")
    return perf_counter() - began


def _repository(path: Path) -> Path:
    for number in range(ITEMS):
        document = path / f"teams/t{number % 50}/adrs/adr-{number}.md"
        document.parent.mkdir(parents=True, exist_ok=True)
        text = f"Because of reason {number} we chose option {number % 7}. " * 20
        document.write_text(f"---\ntitle: Decision {number}\nstatus: accepted\ntags: [t{number % 9}]\n---\n\n{text}\n")
    who = ["-c", "user.name=bench", "-c", "user.email=bench@example.com"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "items"]):
        subprocess.run(["git", *who, "-C", str(path), *words], check=True)
    return path


def _done(response: httpx.Response) -> Any:
    response.raise_for_status()
    return response.json()["data"]
