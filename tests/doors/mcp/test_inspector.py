"""The official inspector as a client, where there is Node: in both eras, over HTTP and over pipes."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.doors.mcp.conftest import TREE
from tests.doors.mcp.kits import INSPECTOR, installed
from tests.harness import DRAGOMAN, Server

pytestmark = pytest.mark.external
Inspect = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def inspect(spoken: Server, everything: Server) -> Inspect:
    """Asks the inspector for a method, with its options."""
    kits, token = installed(), spoken.token(role="super_admin")
    # What a client starts gets no more of its environment than it is given.
    given = {"DRAGOMAN_URL": everything.url, "DRAGOMAN_TOKEN": token, "PYTHONPATH": TREE}
    targets = {
        "http": (f"{everything.url}/mcp", "--transport", "http", "--header", f"Authorization: Bearer {token}"),
        "pipes": (str(DRAGOMAN), "mcp", *(word for name in given for word in ("-e", f"{name}={given[name]}"))),
    }

    def ask(way: str, era: str, method: str, *options: str) -> dict[str, Any]:
        said = kits.run(INSPECTOR, "--cli", *targets[way], "--protocol-era", era, "--method", method, *options)
        assert said.returncode == 0, said.stdout[-2000:] + said.stderr[-2000:]
        return json.loads(said.stdout)

    return ask


@pytest.mark.parametrize(("way", "era"), [("http", "legacy"), ("http", "modern"), ("pipes", "modern")])
def test_the_inspector_finds_and_calls_tools_and_finds_resources_and_prompts(
    inspect: Inspect, way: str, era: str
) -> None:
    asked = (
        ("tools/list", "--strict"),
        ("tools/call", "--tool-name", "greet", "--tool-arg", "name=Ada"),
        ("resources/list",),
        ("prompts/list",),
    )

    with ThreadPoolExecutor(4) as pool:
        tools, greeted, resources, prompts = pool.map(lambda one: inspect(way, era, *one), asked)

    assert {"greet", "identity_show", "test_simple_text"} <= {tool["name"] for tool in tools["tools"]}
    assert greeted["content"] == [{"type": "text", "text": "Hello, Ada!"}]
    assert {"dragoman://identity", "test://static-text"} <= {one["uri"] for one in resources["resources"]}
    assert {"review-trail", "test_simple_prompt"} <= {prompt["name"] for prompt in prompts["prompts"]}
