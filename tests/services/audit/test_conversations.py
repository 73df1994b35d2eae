"""What conversations did is in the chain: who said what, what came of it, who is told; and rows are held against it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from a2a.types import a2a_pb2 as pb

from dragoman.services.audit.export_file import check_export
from dragoman.services.audit.rows import hashed
from tests.doors.a2a.calling import A2A, CONFORMANCE, state, text, tool
from tests.doors.a2a.grpc_calling import GrpcCaller, address_of, said
from tests.harness import InProcess, wait_for
from tests.services.audit.ledger import Ledger

URL = "http://127.0.0.1:9/hook?token=secret"


@pytest.fixture(scope="module")
def ledger() -> Iterator[Ledger]:
    """A tenant on a server with the conformance agent."""
    with InProcess(CONFORMANCE) as server:
        made = Ledger(server)
        made.write()  # rows from before the first record of a tenant are left alone
        yield made
        while A2A.opened:
            A2A.opened.pop().close()


@pytest.fixture(scope="module")
def talk(ledger: Ledger) -> dict[str, Any]:
    """A task that asked, was answered by another person, and has a push configuration."""
    boss = A2A(ledger.server, tenant=ledger.slug, user="boss", role="org_admin")
    ada = A2A(ledger.server, tenant=ledger.slug, user="ada")
    asked = ada.send(text("tck-input-required"))
    assert state(asked) == "INPUT_REQUIRED"
    boss.call("CreateTaskPushNotificationConfig", {"taskId": asked["id"], "url": URL, "id": "hook"})
    answered = boss.send(text("go on", taskId=asked["id"]))
    wait_for(lambda: state(boss.get(asked["id"])) not in ("SUBMITTED", "WORKING"), "the answer")
    wait_for(lambda: ledger.verify()["unsealed"] == 0, "the seals")
    return answered


def of(ledger: Ledger, task_id: str) -> list[dict[str, Any]]:
    """The records of a task, oldest first, as an export has them."""
    found: list[dict[str, Any]] = []
    check_export(ledger.export_lines(), public_key=None, trusted=[], on_record=lambda _, record: found.append(record))
    return [record for record in found if record.get("resource") == task_id]


@pytest.mark.req("ORC-AUD-1")
def test_each_turn_is_recorded_with_its_caller_and_its_message_as_a_hash(ledger: Ledger, talk: dict[str, Any]) -> None:
    records = of(ledger, talk["id"])

    told = [(one["operation"], one["subject"], one["door"]) for one in records]
    assert told == [
        ("message.send", "ada", "a2a"),
        ("push.create", "boss", "a2a"),
        ("message.send", "boss", "a2a"),
        ("message.answer", "boss", "a2a"),
    ]
    [(history,)] = ledger.sql(
        "SELECT history::text FROM tasks WHERE tenant_id = $1 AND id = $2::text::uuid", talk["id"]
    )
    messages = [hashed(message) for message in json.loads(history)]
    said_there = [one["details"][name] for one in records for name in ("message", "answer") if name in one["details"]]
    assert said_there == messages
    assert "go on" not in json.dumps(records)


def test_an_honest_conversation_agrees_with_its_chain(ledger: Ledger, talk: dict[str, Any]) -> None:
    assert ledger.verify()["disagreements"] == []
    assert check_export(ledger.export_lines(), public_key=None, trusted=[]).fits


EDITS = [
    ("tasks", "owner", "'mallory'", "{0}"),
    ("tasks", "caller", """jsonb_set(caller, '{subject}', '"mallory"')""", "{0}"),
    ("tasks", "history", "replace(history::text, 'go on', 'stop')::jsonb", "{0}"),
    ("tasks", "state", "'failed'", "{0}"),
    ("tasks", "artifacts", """'[{"id": "x"}]'""", "{0}"),
    ("tasks", "message", "replace(message::text, 'And what else?', 'All agreed.')::jsonb", "{0}"),
    ("push_configs", "url", "'http://mallory.example'", "{0}/hook"),
    ("push_configs", "scheme", "'Basic'", "{0}/hook"),
    ("push_configs", "caller", """'{"subject": "mallory"}'""", "{0}/hook"),
    ("push_configs", "version", "'0.9'", "{0}/hook"),
]


@pytest.mark.parametrize(("table", "column", "value", "key"), EDITS, ids=[f"{one[0]}.{one[1]}" for one in EDITS])
def test_a_conversation_or_a_configuration_that_was_edited_is_named(
    ledger: Ledger, talk: dict[str, Any], table: str, column: str, value: str, key: str
) -> None:
    which = f"tenant_id = $1 AND {'id' if table == 'tasks' else 'task_id'} = '{talk['id']}'"
    [(before, kind)] = ledger.sql(f"SELECT {column}::text, pg_typeof({column})::text FROM {table} WHERE {which}")

    ledger.sql(f"UPDATE {table} SET {column} = {value} WHERE {which}")
    try:
        named = [(one["table"], one["id"], one["column"]) for one in ledger.verify()["disagreements"]]
        offline = check_export(ledger.export_lines(), public_key=None, trusted=[]).promises.disagreements
    finally:
        ledger.sql(f"UPDATE {table} SET {column} = $2::text::{kind} WHERE {which}", before)

    assert named == [(table, key.format(talk["id"]), column)]
    assert [(one.table, one.key, one.column) for one in offline] == named


def test_a_task_that_nobody_asked_for_and_a_configuration_that_is_gone_are_named(
    ledger: Ledger, talk: dict[str, Any]
) -> None:
    invented = "7fffffff-ffff-7000-8000-000000000001"
    ledger.sql(
        """INSERT INTO tasks (tenant_id, id, context_id, owner, state, caller)
           VALUES ($1, $2::text::uuid, 'c', 'ada', 'succeeded', '{}')""", invented
    )  # fmt: skip
    ledger.sql("UPDATE push_configs SET id = 'other' WHERE tenant_id = $1")

    found = {(one["table"], one["id"], one["row"]) for one in ledger.verify()["disagreements"]}

    ledger.sql("DELETE FROM tasks WHERE tenant_id = $1 AND id = $2::text::uuid", invented)
    ledger.sql("UPDATE push_configs SET id = 'hook' WHERE tenant_id = $1")
    assert found == {
        ("tasks", invented, "no record knows this row"),
        ("push_configs", f"{talk['id']}/hook", "this row is missing"),
        ("push_configs", f"{talk['id']}/other", "no record knows this row"),
    }


def test_every_door_leaves_the_same_records(ledger: Ledger) -> None:
    """JSON-RPC, HTTP+JSON, gRPC, and the older paths."""
    server = ledger.server
    ada = A2A(server, tenant=ledger.slug, user="ada")
    token = server.token(tenant=ledger.slug, user="ada")
    rest = ada.http.post("/a2a/rest/message:send", json=text("tck-complete-task"), headers={"A2A-Version": "1.0"})
    older = ada.http.post(
        "/tasks/send", json={"message": {"role": "user", "parts": [{"type": "text", "text": "tck-complete-task"}]}}
    )
    with GrpcCaller(address_of(server), authorization=f"Bearer {token}") as caller:
        by_grpc = caller.call("SendMessage", said("tck-complete-task")).task.id
        push = pb.TaskPushNotificationConfig(task_id=by_grpc, url=URL, id="hook")
        caller.call("CreateTaskPushNotificationConfig", push)
        caller.call(
            "DeleteTaskPushNotificationConfig", pb.DeleteTaskPushNotificationConfigRequest(task_id=by_grpc, id="hook")
        )
    by_rpc = ada.send(text("tck-complete-task"))["id"]

    ids = [by_rpc, rest.json()["task"]["id"], older.json()["id"], by_grpc]
    told = [[(one["operation"], one["subject"]) for one in of(ledger, task_id)] for task_id in ids]

    push_records = [("push.create", "ada"), ("push.delete", "ada")]
    assert [[each for each in one if each[0] != "message.answer"] for one in told] == [
        [("message.send", "ada")], [("message.send", "ada")], [("message.send", "ada")],
        [("message.send", "ada"), *push_records],
    ]  # fmt: skip
    assert ledger.verify()["disagreements"] == []


def test_a_read_leaves_no_record_and_no_task_can_be_passed_off_as_one(ledger: Ledger) -> None:
    ada = A2A(ledger.server, tenant=ledger.slug, user="ada")
    read = ada.send(tool("memory_list"))["id"]
    written = ada.send(tool("memory_add", {"content": "Tea."}))["id"]

    honest = ledger.verify()["disagreements"]
    mark = "UPDATE tasks SET caller = caller || '{\"recorded\": %s}' WHERE tenant_id = $1 AND id = $2::text::uuid"
    ledger.sql(mark % "false", written)
    forged = [(one["table"], one["id"], one["row"]) for one in ledger.verify()["disagreements"]]
    ledger.sql("UPDATE tasks SET caller = caller - 'recorded' WHERE tenant_id = $1 AND id = $2::text::uuid", written)

    assert of(ledger, read) == []
    assert [one["operation"] for one in of(ledger, written)] == ["message.send"]
    assert honest == []
    assert forged == [("tasks", written, "this row is missing")]


def test_a_cancelled_turn_is_recorded_and_agrees(ledger: Ledger) -> None:
    ada = A2A(ledger.server, tenant=ledger.slug, user="ada")
    task = ada.send(text("tck-input-required"))

    ada.call("CancelTask", {"id": task["id"]})

    assert [one["operation"] for one in of(ledger, task["id"])][-1] == "task.cancel"
    assert ledger.verify()["disagreements"] == []
