import json
from uuid import uuid4

import pytest

from tests.backstage import connect, locked, sql
from tests.doors.mcp.calling import MODERN, OLD, OLDER, Mcp, official
from tests.doors.rest.calling import new_tenant
from tests.harness import Server, wait_for

pytestmark = pytest.mark.anyio
ERAS = (OLD, OLDER, MODERN)


def slug() -> str:
    return f"t-{uuid4().hex[:12]}"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_official_client_lists_and_calls_tools_in_both_eras(spoken: Server, mode: str) -> None:
    """The client checks every result against the schema that the tool promised."""
    async with official(spoken, mode=mode) as client:  # pyright: ignore[reportArgumentType]
        listed = await client.list_tools()
        who = await client.call_tool("identity_show", {})
        made = await client.call_tool("tenant_create", {"name": "Acme", "slug": slug()})
        page = await client.call_tool("tenant_list", {"limit": 2})

    assert {"identity_show", "tenant_create", "audit_verify"} <= {tool.name for tool in listed.tools}
    assert who.structured_content["subject"] == "admin"
    assert not made.is_error
    assert len(page.structured_content["items"]) == 2


@pytest.mark.parametrize("era", ERAS)
def test_a_tool_is_listed_with_its_schemas_and_hints(mcp: Mcp, era: str) -> None:
    tools = {tool["name"]: tool for tool in mcp.ask("tools/list", era=era)["tools"]}

    create, delete, show = tools["tenant_create"], tools["tenant_delete"], tools["identity_show"]
    assert create["inputSchema"]["required"] == ["name", "slug"]
    assert create["inputSchema"]["additionalProperties"] is False
    assert "idempotency_key" in create["inputSchema"]["properties"]
    assert "idempotency_key" not in show["inputSchema"].get("properties", {})
    assert "slug" in create["outputSchema"]["properties"]
    assert create["title"] == "Create a tenant"
    hints = {name: tools[name]["annotations"] for name in ("tenant_create", "tenant_delete", "identity_show")}
    assert [hints[tool["name"]]["readOnlyHint"] for tool in (create, delete, show)] == [False, False, True]
    assert [hints[tool["name"]]["destructiveHint"] for tool in (create, delete, show)] == [False, True, False]
    assert hints["identity_show"]["idempotentHint"] is True
    assert list(tools) == sorted(tools)


def test_a_caller_sees_only_the_tools_that_it_may_use(spoken: Server, mcp: Mcp) -> None:
    everything = mcp.ask("tools/list")
    viewer = Mcp(spoken, role="viewer").ask("tools/list")
    narrow = Mcp(spoken, role="org_admin", scopes=["read:audit"]).ask("tools/list")

    names = [{tool["name"] for tool in answer["tools"]} for answer in (everything, viewer, narrow)]
    assert names[1] < names[0]
    assert "user_invite" not in names[1]
    assert names[2] == {"identity_show", "audit_list", "audit_verify", "audit_export"}
    assert everything["cacheScope"] == "private"


@pytest.mark.parametrize("era", ERAS)
def test_wrong_arguments_are_an_answer_that_names_all_of_them(mcp: Mcp, era: str) -> None:
    result = mcp.call("tenant_create", {"slug": 5, "colour": "red"}, era=era)

    assert result["isError"] is True
    error = result["structuredContent"]["error"]
    assert (error["code"], error["retryable"]) == ("INVALID_PARAMS", False)
    assert {one["field"] for one in error["details"]["errors"]} == {"name", "slug", "colour"}
    assert "colour" in result["content"][0]["text"]


def test_arguments_are_taken_as_they_are_and_nothing_is_made_fit(mcp: Mcp) -> None:
    as_text = mcp.call("tenant_list", {"limit": "5"})
    with_null = mcp.call("tenant_create", {"name": "a\u0000b", "slug": slug(), "colour": 2**53})

    assert [answer["structuredContent"]["error"]["code"] for answer in (as_text, with_null)] == ["INVALID_PARAMS"] * 2
    complaints = with_null["structuredContent"]["error"]["details"]["errors"]
    assert {one["field"] for one in complaints} == {"name", "colour"}
    assert "name: must not contain" in with_null["content"][0]["text"]


@pytest.mark.parametrize("era", ERAS)
def test_a_skill_refuses_such_arguments_alike_and_an_unknown_tool_is_still_unknown(mcp: Mcp, era: str) -> None:
    unfit = {"text": "tck-input-required", "data": {"x": "a\u0000b"}}
    skill = mcp.call("conformance", unfit, era=era)
    unknown = mcp.error("tools/call", {"name": "tenant_explode", "arguments": unfit}, era=era)

    assert skill["isError"] is True
    assert [one["field"] for one in skill["structuredContent"]["error"]["details"]["errors"]] == ["data"]
    assert (unknown["code"], "Unknown tool" in unknown["message"]) == (-32602, True)


@pytest.mark.parametrize("era", ERAS)
def test_a_domain_failure_is_an_answer_with_the_code_of_every_door(mcp: Mcp, era: str) -> None:
    taken = slug()
    mcp.call("tenant_create", {"name": "First", "slug": taken}, era=era)

    result = mcp.call("tenant_create", {"name": "Second", "slug": taken}, era=era)

    assert result["isError"] is True
    assert result["structuredContent"]["error"]["code"] == "CONFLICT"
    assert result["content"][0]["text"].startswith("CONFLICT: ")


def test_what_the_caller_may_not_do_is_an_answer_too_and_recorded(spoken: Server) -> None:
    tenant = new_tenant(spoken)["slug"]
    viewer = Mcp(spoken, role="viewer", tenant=tenant)

    result = viewer.call("user_invite", {"email": "ada@example.com", "name": "Ada", "role": "analyst"})

    assert result["structuredContent"]["error"]["code"] == "UNAUTHORIZED"
    kept = Mcp(spoken, tenant=tenant).call("audit_list")["structuredContent"]["items"]
    assert [(record["operation"], record["outcome"]) for record in kept] == [("user.invite", "refused")]


@pytest.mark.parametrize("era", ERAS)
def test_an_unknown_tool_is_an_error_of_the_protocol(mcp: Mcp, era: str) -> None:
    assert mcp.error("tools/call", {"name": "tenant_explode", "arguments": {}}, era=era)["code"] == -32602


@pytest.mark.parametrize("era", ERAS)
def test_an_unknown_method_and_a_foreign_cursor_are_errors_of_the_protocol(mcp: Mcp, era: str) -> None:
    assert mcp.error("tools/explode", era=era)["code"] == -32601
    assert mcp.error("tools/list", {"cursor": "abc"}, era=era)["code"] == -32602


@pytest.mark.parametrize("how", ["argument", "meta"])
def test_a_key_makes_a_repetition_harmless_on_this_door_and_across_doors(spoken: Server, mcp: Mcp, how: str) -> None:
    key, given = uuid4().hex, {"name": "Once", "slug": slug()}
    arguments = given | ({"idempotency_key": key} if how == "argument" else {})
    meta = {"dragoman/idempotencyKey": key} if how == "meta" else None

    first = mcp.call("tenant_create", arguments, meta=meta)
    again = mcp.call("tenant_create", arguments, meta=meta)
    other = mcp.call("tenant_create", arguments | {"slug": slug()}, meta=meta)
    rest = mcp.http.post("/api/tenant", json=given, headers={"idempotency-key": key})

    assert first["structuredContent"] == again["structuredContent"] == rest.json()["data"]
    assert "dragoman/replayed" not in first.get("_meta", {})
    assert again["_meta"]["dragoman/replayed"] is True
    assert rest.headers["idempotency-replayed"] == "true"
    assert other["structuredContent"]["error"]["code"] == "IDEMPOTENCY_CONFLICT"
    assert len(sql(spoken, "SELECT FROM tenants WHERE slug = $1", given["slug"])) == 1


def test_a_key_that_is_none_is_refused(mcp: Mcp) -> None:
    numbers = mcp.call("tenant_create", {"name": "A", "slug": slug(), "idempotency_key": 5})
    empty = mcp.call("tenant_create", {"name": "A", "slug": slug(), "idempotency_key": ""})
    two = mcp.call(
        "tenant_create", {"name": "A", "slug": slug(), "idempotency_key": "a"}, meta={"dragoman/idempotencyKey": "b"}
    )

    codes = [answer["structuredContent"]["error"]["code"] for answer in (numbers, empty, two)]
    assert codes == ["INVALID_PARAMS"] * 3


def test_nothing_of_another_tenant_can_be_seen(mcp: Mcp, rival: Mcp) -> None:
    invitation = {"email": f"{uuid4().hex}@example.com", "name": "Ada", "role": "analyst"}
    theirs = mcp.call("user_invite", invitation)["structuredContent"]

    foreign = rival.call("user_get", {"user_id": theirs["id"]})
    missing = rival.call("user_get", {"user_id": str(uuid4())})

    codes = {answer["structuredContent"]["error"]["code"] for answer in (foreign, missing)}
    assert codes == {"NOT_FOUND"}


def test_tools_of_the_agent_are_tools_with_their_own_schemas(spoken: Server, everything: Server) -> None:
    caller = Mcp(everything, keys_of=spoken, role="super_admin")

    tools = {tool["name"]: tool for tool in caller.ask("tools/list")["tools"]}
    greeted = caller.call("greet", {"name": "Ada"})
    computed = caller.call("slow_compute", {"seconds": 0, "label": "at once"})
    wrong = caller.call("greet", {"nom": "Ada"})
    failed = caller.call("test_error_handling")
    crashed = caller.call("protocol_error_job")

    assert {"greet", "slow_compute", "jobs", "identity_show"} <= set(tools)
    assert tools["greet"]["inputSchema"]["required"] == ["name"]
    assert tools["greet"]["annotations"]["readOnlyHint"] is True
    assert greeted["content"] == [{"type": "text", "text": "Hello, Ada!"}]
    assert computed["structuredContent"] == {"label": "at once"}
    assert wrong["structuredContent"]["error"]["code"] == "INVALID_PARAMS"
    assert failed["isError"] is crashed["isError"] is True
    assert "secret" not in str(crashed)


def test_a_write_is_done_although_its_client_has_left_in_its_middle(spoken: Server, mcp: Mcp) -> None:
    taken = slug()
    given = {"name": "tenant_create", "arguments": {"name": "Left", "slug": taken, "idempotency_key": uuid4().hex}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": given}).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {spoken.token(role='super_admin')}\r\n"
        "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
        f"MCP-Protocol-Version: 2025-11-25\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%idempotency_keys%'"
    mcp.ask("tools/list")

    with locked(spoken, "idempotency_keys"):
        with connect(spoken) as wire:
            wire.sendall(head.encode() + body)
            wait_for(lambda: sql(spoken, waiting), "the write to be under way")
        mcp.ask("tools/list")

    wait_for(lambda: sql(spoken, "SELECT FROM tenants WHERE slug = $1", taken), "the tenant")
