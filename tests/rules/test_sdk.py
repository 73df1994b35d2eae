"""The official A2A SDK is one version everywhere, and one that is written down."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest

pytestmark = pytest.mark.sdk
ROOT = Path(__file__).parents[2]


@pytest.mark.req("RAD-C1-1")
def test_the_pinned_sdk_is_the_installed_one_and_the_one_of_the_changelog() -> None:
    pins = set(re.findall(r'"a2a-sdk\[[^\]]*\]==([^"]+)"', (ROOT / "pyproject.toml").read_text()))
    noted = re.search(r"pinned to a2a-sdk (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text())

    assert noted is not None
    assert pins == {version("a2a-sdk")} == {noted[1]}


@pytest.mark.req("RAD-C1-2")
def test_the_sdk_is_known_to_the_edge_of_one_door_and_to_the_client_that_compares_doors() -> None:
    source = ROOT / "src" / "dragoman"
    known = [
        str(path.relative_to(source))
        for path in sorted(source.rglob("*.py"))
        if re.search(r"^\s*(from|import) a2a\b", path.read_text(), re.MULTILINE)
    ]

    assert known == ["doors/a2a/grpc.py", "parity/grpc.py"]
