import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.kit import Annotations, Tool, ToolResult, Toolset
from dragoman.kit.toolsets import ApiKey, OpenApiToolset
from tests.kit.web import Web, answer, drop

PET_ID = {"name": "pet_id", "in": "path", "required": True, "description": "Its id.", "schema": {"type": "string"}}
DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "https://pets.example.com/v1"}],
    "paths": {
        "/pets/{pet_id}": {
            "parameters": [{"$ref": "#/components/parameters/PetId"}],
            "get": {
                "operationId": "getPet",
                "summary": "One pet.",
                "parameters": [{"name": "fields", "in": "query", "schema": {"type": "array"}}],
            },
            "delete": {"description": "Let it go."},
        },
        "/pets": {
            "post": {
                "operationId": "addPet",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
                },
            }
        },
    },
    "components": {
        "parameters": {
            "PetId": {
                "name": "pet_id",
                "in": "path",
                "required": True,
                "description": "Its id.",
                "schema": {"type": "string"},
            }
        },
        "schemas": {
            "Pet": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "mother": {"$ref": "#/components/schemas/Pet"}},
            }
        },
    },
}


def tools(base_url: str, **options: Any) -> dict[str, Tool]:
    return {tool.name: tool for tool in OpenApiToolset(DOCUMENT, base_url=base_url, **options)}


def test_every_operation_is_a_tool() -> None:
    found = tools("http://localhost")

    assert list(found) == ["getPet", "delete_pets_pet_id", "addPet"]
    assert found["getPet"].description == "One pet."
    assert found["getPet"].input_schema["properties"]["pet_id"] == {"type": "string", "description": "Its id."}
    assert found["getPet"].input_schema["required"] == ["pet_id"]
    assert found["addPet"].input_schema["properties"]["body"]["properties"]["name"] == {"type": "string"}
    assert found["delete_pets_pet_id"].annotations == Annotations(destructive=True, idempotent=True)
    assert found["getPet"].annotations == Annotations(read_only=True, idempotent=True)


async def test_a_call_goes_where_the_document_says_and_cannot_leave_its_place(web: Web) -> None:
    web.script += [answer(200, {"name": "Rex"}), answer(201, {"id": 1}), answer(204, "")]
    found = tools(f"{web.url}/v1", api_key=ApiKey.bearer("t0ken"))

    got = await found["getPet"].call({"pet_id": "../a b?x=1", "fields": ["a", "b"]})
    added = await found["addPet"].call({"body": {"name": "Rex"}})
    gone = await found["delete_pets_pet_id"].call({"pet_id": 7})

    assert [got, added, gone] == [ToolResult({"name": "Rex"}), ToolResult({"id": 1}), ToolResult(None)]
    assert [(seen.method, seen.path) for seen in web.seen] == [
        ("GET", "/v1/pets/..%2Fa%20b%3Fx%3D1?fields=a&fields=b"),
        ("POST", "/v1/pets"),
        ("DELETE", "/v1/pets/7"),
    ]
    assert web.seen[1].body == {"name": "Rex"}
    assert web.seen[0].headers["authorization"] == "Bearer t0ken"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "pet_id is required"),
        ({"pet_id": "1", "wings": 2}, "wings is unknown"),
        ({"pet_id": ".."}, "must not be empty or dots"),
    ],
)
async def test_bad_arguments_do_not_reach_the_server(arguments: dict[str, Any], complaint: str, web: Web) -> None:
    result = await tools(web.url)["getPet"].call(arguments)

    assert (result.is_error, result.code) == (True, "INVALID_PARAMS")
    assert complaint in str(result.output)
    assert web.seen == []


async def test_a_key_can_stand_in_the_query_and_is_never_shown(web: Web) -> None:
    web.script.append(answer(200, {}))
    key = ApiKey("key", "s3cret", "query")

    await tools(web.url, api_key=key)["getPet"].call({"pet_id": "1"})

    assert web.seen[0].path == "/pets/1?key=s3cret"
    assert "s3cret" not in repr(key)


async def test_errors_of_the_server_are_told_and_redirects_are_not_followed(web: Web) -> None:
    web.script += [answer(404, {"error": "no such pet"}), answer(302, "", location="http://127.0.0.1:1/"), drop]
    pet = tools(web.url)["getPet"]

    missing, moved, dropped = [await pet.call({"pet_id": "1"}) for _ in range(3)]

    assert missing == ToolResult.error('status 404: {"error": "no such pet"}', details={"status": 404})
    assert moved.details == {"status": 302}
    assert dropped == ToolResult.error("the server of getPet does not answer")


async def test_a_document_is_read_from_a_file_or_an_address(web: Web, tmp_path: Path) -> None:
    relative = {**DOCUMENT, "servers": [{"url": "/v1"}]}
    web.script += [answer(200, relative), answer(200, {"name": "Rex"})]
    path = tmp_path / "api.json"
    path.write_text(json.dumps(DOCUMENT), encoding="utf-8")

    fetched = await OpenApiToolset.from_url(f"{web.url}/openapi.json", allow_hosts=["127.0.0.1"], include=["getPet"])

    assert [tool.name for tool in await fetched.list_tools()] == ["getPet"]
    assert isinstance(fetched, Toolset)
    assert (await next(iter(fetched)).call({"pet_id": "1"})).output == {"name": "Rex"}
    assert web.seen[1].path == "/v1/pets/1"
    assert len(OpenApiToolset(path, allow_hosts=["pets.example.com"])) == 3


async def test_a_document_that_is_not_there_is_refused(web: Web) -> None:
    web.script += [answer(404, ""), answer(200, "[1]")]

    for _ in range(2):
        with pytest.raises(ValueError, match="no OpenAPI document"):
            await OpenApiToolset.from_url(web.url)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({}, "'pets.example.com' is not in allow_hosts"),
        ({"servers": []}, "names no server"),
        ({"openapi": "2.0"}, "version 3"),
        ({"paths": {"/a": {"get": {"parameters": [{"$ref": "http://evil/#/x"}]}}}}, "leaves the document"),
        ({"paths": {"/a": {"get": {"parameters": [{"$ref": "#/nope"}]}}}}, "leads nowhere"),
    ],
)
def test_a_document_that_cannot_be_trusted_or_read_is_refused(change: dict[str, Any], complaint: str) -> None:
    hosts = ["pets.example.com"] if "paths" in change else []
    with pytest.raises(ValueError, match=complaint):
        OpenApiToolset(DOCUMENT | change, allow_hosts=hosts)
