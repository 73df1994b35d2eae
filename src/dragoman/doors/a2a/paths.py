"""The addresses of this door, for the OpenAPI document: what each is for; the protocol's own schemas say the rest."""

from typing import Any, Final

from dragoman.doors.a2a.card import CARD_PATH, REST_PATH, RPC_PATH

Json = dict[str, Any]

_JSON: Final = "application/json"
_SSE: Final = "text/event-stream"
_MESSAGE: Final[Json] = {
    "message": {
        "messageId": "5a9d6a0e-6f0c-4a5e-9d0b-2f3f0f2f9c11",
        "role": "ROLE_USER",
        "parts": [{"data": {"tool": "identity_show", "arguments": {}}}],
    }
}
_OLD_MESSAGE: Final[Json] = {
    "message": {"role": "user", "parts": [{"type": "data", "data": {"tool": "identity_show", "arguments": {}}}]}
}
_TASK: Final[Json] = {"id": "01890a5d-ac96-774b-bcce-b302099a8057", "status": {"state": "TASK_STATE_COMPLETED"}}
_NEW_PUSH: Final[Json] = {"url": "https://hooks.example.com/a2a", "token": "a secret of the receiver"}
_PUSH: Final[Json] = {"taskId": _TASK["id"], "id": "hook", "url": _NEW_PUSH["url"]}
_IN_PATHS: Final[Json] = {"id": _TASK["id"], "config": _PUSH["id"]}
_OLD_TASK: Final[Json] = {"id": "01890a5d-ac96-774b-bcce-b302099a8057", "status": {"state": "completed"}}


def _operation(
    name: str,
    summary: str,
    answer: Json,
    *,
    body: Json | None = None,
    varies: tuple[str, ...] = (),
    streams: bool = False,
) -> Json:
    content: Json = {_SSE: {}} if streams else {}
    content[_JSON] = {"schema": {"type": "object"}, "example": answer}
    # What goes wrong is said by the protocol, or by a problem document where HTTP says it better (401, 413, 429).
    failure = {media: {"schema": {"type": "object"}} for media in (_JSON, "application/problem+json")}
    operation: Json = {
        "tags": ["a2a"],
        "operationId": name,
        "summary": summary,
        "responses": {
            "200": {"description": "As the protocol has it.", "content": content},
            "default": {"description": "An error.", "content": failure},
        },
    }
    if body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {_JSON: {"schema": {"type": "object"}, "example": body}},
        }
    if varies:
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}, "example": _IN_PATHS[name]}
            for name in varies
        ]
    return operation


def _card(name: str, summary: str) -> Json:
    return _operation(name, summary, {"name": "Dragoman"}) | {"security": []}


_RPC: Final[Json] = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": _MESSAGE}

PATHS: Final[dict[str, Json]] = {
    CARD_PATH: {"get": _card("a2a_card", "The A2A 1.0 card")},
    RPC_PATH: {
        "post": _operation("a2a_jsonrpc", "A2A over JSON-RPC", {"jsonrpc": "2.0", "id": 1, "result": {"task": _TASK}},
                           body=_RPC, streams=True),
    },
    f"{REST_PATH}/message:send": {
        "post": _operation("a2a_send_message", "Send a message", {"task": _TASK}, body=_MESSAGE),
    },
    f"{REST_PATH}/message:stream": {
        "post": _operation("a2a_stream_message", "Send a message and follow its task", {"task": _TASK}, body=_MESSAGE,
                           streams=True),
    },
    f"{REST_PATH}/tasks": {"get": _operation("a2a_list_tasks", "List tasks", {"tasks": [_TASK], "totalSize": 1})},
    f"{REST_PATH}/tasks/{{id}}": {"get": _operation("a2a_get_task", "Show a task", _TASK, varies=("id",))},
    f"{REST_PATH}/tasks/{{id}}:cancel": {
        "post": _operation("a2a_cancel_task", "Cancel a task", _TASK, body={}, varies=("id",)),
    },
    f"{REST_PATH}/tasks/{{id}}:subscribe": {
        "get": _operation("a2a_follow_task", "Follow a task", {"task": _TASK}, varies=("id",), streams=True),
        "post": _operation("a2a_follow_task_by_post", "Follow a task", {"task": _TASK}, body={}, varies=("id",),
                           streams=True),
    },
    f"{REST_PATH}/tasks/{{id}}/pushNotificationConfigs": {
        "post": _operation("a2a_create_push_config", "Have a webhook told of a task", _PUSH, body=_NEW_PUSH,
                           varies=("id",)),
        "get": _operation("a2a_list_push_configs", "List the webhooks of a task", {"configs": [_PUSH]}, varies=("id",)),
    },
    f"{REST_PATH}/tasks/{{id}}/pushNotificationConfigs/{{config}}": {
        "get": _operation("a2a_get_push_config", "Show a webhook of a task", _PUSH, varies=("id", "config")),
        "delete": _operation("a2a_delete_push_config", "Remove a webhook of a task", {}, varies=("id", "config")),
    },
    f"{REST_PATH}/extendedAgentCard": {
        "get": _operation("a2a_extended_card", "The card for this caller", {"name": "Dragoman"}),
    },
}  # fmt: skip

# The plain paths that came before the protocol had a number.
OLD_PATHS: Final[dict[str, Json]] = {
    "/.well-known/agent.json": {"get": _card("a2a_old_card", "The card in its first shape")},
    "/tasks/send": {"post": _operation("a2a_old_send", "Send a message", _OLD_TASK, body=_OLD_MESSAGE)},
    "/tasks/sendSubscribe": {
        "post": _operation("a2a_old_stream", "Send a message and follow its task", _OLD_TASK, body=_OLD_MESSAGE,
                           streams=True),
    },
    "/tasks/{id}/get": {"get": _operation("a2a_old_get", "Show a task", _OLD_TASK, varies=("id",))},
    "/tasks/{id}/send": {
        "post": _operation("a2a_old_answer", "Go on with a task", _OLD_TASK, body=_OLD_MESSAGE, varies=("id",)),
    },
    "/tasks/{id}/cancel": {"post": _operation("a2a_old_cancel", "Cancel a task", _OLD_TASK, body={}, varies=("id",))},
}  # fmt: skip
