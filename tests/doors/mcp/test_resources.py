import json
from uuid import uuid4

import pytest

from tests.doors.mcp.calling import MODERN, OLD, Mcp, official
from tests.harness import Server

pytestmark = pytest.mark.anyio


def contents(answer: dict[str, list[dict[str, str]]]) -> dict[str, object]:
    return json.loads(answer["contents"][0]["text"])


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_official_client_reads_resources_and_prompts(spoken: Server, mode: str) -> None:
    async with official(spoken, mode=mode) as client:  # pyright: ignore[reportArgumentType]
        resources = await client.list_resources()
        templates = await client.list_resource_templates()
        identity = await client.read_resource("dragoman://identity")
        prompts = await client.list_prompts()
        prompt = await client.get_prompt("review-trail")

    assert "dragoman://identity" in {str(resource.uri) for resource in resources.resources}
    assert "dragoman://task/{task_id}" in {template.uri_template for template in templates.resource_templates}
    assert json.loads(identity.contents[0].text)["subject"] == "admin"  # pyright: ignore[reportAttributeAccessIssue]
    assert {"review-trail", "check-change"} <= {prompt.name for prompt in prompts.prompts}
    assert "audit_verify" in prompt.messages[0].content.text  # pyright: ignore[reportAttributeAccessIssue]


def test_a_task_can_be_read_as_a_resource_by_its_tenant_alone(mcp: Mcp, rival: Mcp) -> None:
    task_id = mcp.call("conformance", {"text": "tck-artifact-text"})["structuredContent"]["task_id"]
    uri = f"dragoman://task/{task_id}"

    own = contents(mcp.ask("resources/read", {"uri": uri}))
    foreign = rival.error("resources/read", {"uri": uri})
    recent = contents(mcp.ask("resources/read", {"uri": "dragoman://tasks"}))

    assert (own["taskId"], own["status"]) == (task_id, "completed")
    assert foreign["code"] == -32602
    assert task_id in str(recent)
    assert task_id not in str(contents(rival.ask("resources/read", {"uri": "dragoman://tasks"})))


@pytest.mark.parametrize(("era", "code"), [(OLD, -32002), (MODERN, -32602)])
@pytest.mark.parametrize(
    "uri",
    [
        f"dragoman://task/{uuid4()}",
        "dragoman://task",
        "dragoman://identity/5",
        "dragoman://secrets",
        "dragoman://knowledge/nowhere",
        "file:///etc/passwd",
        "nonsense",
    ],
)
def test_what_is_not_there_is_not_found_in_the_words_of_each_era(mcp: Mcp, era: str, code: int, uri: str) -> None:
    error = mcp.error("resources/read", {"uri": uri}, era=era)

    assert (error["code"], error["data"]["uri"]) == (code, uri)


def test_who_may_not_read_is_not_shown_and_not_told(spoken: Server) -> None:
    narrow = Mcp(spoken, role="org_admin", scopes=["read:audit"])

    resources = {one["uri"] for one in narrow.ask("resources/list")["resources"]}
    templates = narrow.ask("resources/templates/list")["resourceTemplates"]
    prompts = {one["name"] for one in narrow.ask("prompts/list")["prompts"]}
    refused = narrow.error("resources/read", {"uri": "dragoman://tasks"})

    assert resources == {"dragoman://identity"}
    assert templates == []
    assert prompts == {"review-trail"}
    assert refused["data"]["code"] == "UNAUTHORIZED"


def test_a_prompt_needs_its_arguments(mcp: Mcp) -> None:
    missing = mcp.error("prompts/get", {"name": "check-change"})
    unknown = mcp.error("prompts/get", {"name": "explode"})
    filled = mcp.ask("prompts/get", {"name": "check-change", "arguments": {"change": "import os"}})

    assert missing["code"] == unknown["code"] == -32602
    assert "import os" in filled["messages"][0]["content"]["text"]
