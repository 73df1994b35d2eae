"""Push notifications, to a receiver with a real socket."""

import json
import signal
import threading
from typing import Any
from uuid import uuid4

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from tests.backstage import metrics, sql
from tests.doors.a2a.calling import A2A, CONFORMANCE, state, text, tool, unnumbered
from tests.doors.a2a.older_schema import check as check_older
from tests.doors.a2a.schema import check
from tests.doors.rest.calling import new_tenant
from tests.harness import InProcess, Process, Server, data_dir, wait_for
from tests.receiver import Receiver, Reply
from tests.tenants import done, invite

NOBODY = "00000000-0000-0000-0000-000000000000"


def told_to(receiver: Receiver, **fields: Any) -> dict[str, Any]:
    """The configuration of a message that asks for notifications."""
    return {"taskPushNotificationConfig": {"url": receiver.url, **fields}}


def test_a_receiver_is_told_everything_in_order(a2a: A2A) -> None:
    with Receiver() as receiver:
        task = a2a.send(text("tck-stream-chunked count=5", configuration=told_to(receiver)))

        told = receiver.until("COMPLETED")

    for notification in told:
        check("StreamResponse", notification.json)
        assert notification.headers["content-type"] == "application/json"
    assert [notification.state for notification in told] == ["SUBMITTED", "WORKING", "", "", "", "", "", "COMPLETED"]
    updates = [notification.json["artifactUpdate"] for notification in told[2:-1]]
    assert [update["artifact"]["parts"][0]["text"] for update in updates] == [f"chunk-{n} " for n in range(1, 6)]
    assert {next(iter(notification.json.values()))["taskId"] for notification in told} == {task["id"]}
    assert len({notification.headers["webhook-id"] for notification in told}) == len(told)


def test_an_event_that_is_not_taken_is_tried_again_before_the_next(a2a: A2A) -> None:
    with Receiver(Reply(), Reply(500), Reply(429, {"retry-after": "0"})) as receiver:
        a2a.send(text("tck-complete-task", configuration=told_to(receiver)))

        told = receiver.until("COMPLETED")

    assert [one.state for one in told] == ["SUBMITTED", "WORKING", "WORKING", "WORKING", "", "COMPLETED"]
    ids = [one.headers["webhook-id"] for one in told]
    assert (len({*ids[1:4]}), len({*ids})) == (1, 4)
    assert {one.body for one in told[1:4]} == {told[1].body}


@pytest.mark.parametrize("status", [400, 401, 404, 410, 301])
def test_a_receiver_that_refuses_is_given_up_until_it_is_named_again(served: Server, a2a: A2A, status: int) -> None:
    with Receiver(Reply(), Reply(status, {"location": "http://127.0.0.1:1/"})) as receiver:
        task = a2a.send(text("tck-complete-task", configuration=told_to(receiver, id="hook")))
        states = [receiver.next().state, receiver.next().state]
        given_up = "SELECT reason FROM push_configs WHERE task_id = $1::uuid AND state = 'failed'"
        [row] = wait_for(lambda: sql(served, given_up, task["id"]), "the end of it")
        assert (states, row["reason"]) == (["SUBMITTED", "WORKING"], f"HTTP {status}")

        a2a.call("CreateTaskPushNotificationConfig", {"taskId": task["id"], "id": "hook", "url": receiver.url})

        assert [one.state for one in receiver.until("COMPLETED")] == ["WORKING", "", "COMPLETED"]
    assert metrics(served)['dragoman_push_attempts_total{outcome="gave_up"}'] >= 1


def test_a_receiver_that_is_away_is_given_up_in_the_end() -> None:
    with Receiver() as receiver:
        url = receiver.url
    with InProcess(CONFORMANCE | {"DRAGOMAN_PUSH__MAX_ATTEMPTS": "2"}) as server:
        task = A2A(server).send(text("tck-complete-task", configuration={"taskPushNotificationConfig": {"url": url}}))

        given_up = "SELECT reason FROM push_configs WHERE task_id = $1::uuid AND state = 'failed'"
        [row] = wait_for(lambda: sql(server, given_up, task["id"]), "the end of it")

        assert row["reason"] == "ConnectError"
        [line] = [line for line in server.log_lines() if line["message"] == "push.given_up"]
        assert (line["task_id"], line["attempts"]) == (task["id"], 2)


@pytest.mark.parametrize("token", ["whsec_c2VjcmV0IG9mIHRoZSByZWNlaXZlcg==", "a-plain-token"])
def test_a_token_signs_and_only_a_plain_one_is_sent(a2a: A2A, token: str) -> None:
    secret = token if token.startswith("whsec_") else token.encode()
    with Receiver() as receiver:
        a2a.send(text("tck-complete-task", configuration=told_to(receiver, token=token)))

        told = receiver.until("COMPLETED")

    for one in told:
        assert Webhook(secret).verify(one.body, one.headers) == one.json
        assert one.headers.get("x-a2a-notification-token") == (None if token.startswith("whsec_") else token)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(told[0].body + b" ", told[0].headers)


def test_token_and_credentials_are_sent_and_never_read_back(served: Server, a2a: A2A) -> None:
    secrets = {"token": "t0ken-secret", "authentication": {"scheme": "Basic", "credentials": "cr3dentials-secret"}}
    with Receiver() as receiver:
        task = a2a.send(text("tck-input-required"))
        given = {"taskId": task["id"], "id": "one", "url": receiver.url, **secrets}
        made = a2a.call("CreateTaskPushNotificationConfig", given)
        told = receiver.next()

        shown = [
            a2a.call("GetTaskPushNotificationConfig", {"taskId": task["id"], "id": "one"}),
            *a2a.call("ListTaskPushNotificationConfigs", {"taskId": task["id"]})["configs"],
            a2a.http.get(f"/a2a/rest/tasks/{task['id']}/pushNotificationConfigs/one").json(),
        ]

    assert shown == [made] * 3
    assert made == {
        "taskId": task["id"], "id": "one", "url": receiver.url, "authentication": {"scheme": "Basic"}
    }  # fmt: skip
    assert told.headers["authorization"] == "Basic cr3dentials-secret"
    [row] = sql(served, "SELECT p::text AS row, secret FROM push_configs p WHERE task_id = $1::uuid", task["id"])
    assert b"secret" not in row["secret"]
    assert b"secret".hex() not in row["row"]
    assert "cr3dentials" not in served.log.read_text()


def test_another_tenants_task_looks_like_a_missing_one(a2a: A2A, rival: A2A) -> None:
    task = a2a.send(text("tck-input-required"))
    a2a.call("CreateTaskPushNotificationConfig", {"taskId": task["id"], "id": "one", "url": "https://example.com"})

    for method, fields in (
        ("CreateTaskPushNotificationConfig", {"id": "one", "url": "https://example.com"}),
        ("GetTaskPushNotificationConfig", {"id": "one"}),
        ("ListTaskPushNotificationConfigs", {}),
        ("DeleteTaskPushNotificationConfig", {"id": "one"}),
    ):
        foreign = rival.error(method, {"taskId": task["id"], **fields})
        missing = rival.error(method, {"taskId": NOBODY, **fields})
        assert foreign["code"] == -32001
        assert unnumbered(foreign).replace(task["id"], NOBODY) == unnumbered(missing)
    assert len(a2a.call("ListTaskPushNotificationConfigs", {"taskId": task["id"]})["configs"]) == 1


def test_a_viewer_may_look_and_not_add(served: Server, a2a: A2A) -> None:
    task = a2a.send(text("tck-input-required"))
    viewer = A2A(served, role="viewer")

    assert viewer.call("ListTaskPushNotificationConfigs", {"taskId": task["id"]})["configs"] == []
    for method in ("CreateTaskPushNotificationConfig", "DeleteTaskPushNotificationConfig"):
        body = {"jsonrpc": "2.0", "id": 1, "method": method}
        assert viewer.post({**body, "params": {"taskId": task["id"], "id": "x", "url": "https://x.example"}}).is_error


def test_a_task_has_several_receivers_but_not_endlessly_many(a2a: A2A) -> None:
    task = a2a.send(text("tck-input-required"))
    with Receiver() as receiver:
        given = {"taskId": task["id"], "url": receiver.url}
        ids = sorted(a2a.call("CreateTaskPushNotificationConfig", given)["id"] for _ in range(20))

        error = a2a.error("CreateTaskPushNotificationConfig", given)

        assert (error["code"], error["data"][0]["metadata"]["reason"]) == (-32000, "TOO_MANY_PUSH_CONFIGS")
        a2a.call("CreateTaskPushNotificationConfig", {**given, "id": ids[0]})
        assert {receiver.next().state for _ in ids} == {"INPUT_REQUIRED"}
    seen: list[str] = []
    page: dict[str, Any] = {"nextPageToken": ""}
    while not seen or page["nextPageToken"]:
        asked = {"taskId": task["id"], "pageSize": 7, "pageToken": page["nextPageToken"]}
        page = a2a.call("ListTaskPushNotificationConfigs", asked)
        seen += [config["id"] for config in page["configs"]]
    assert seen == ids


def test_a_receiver_that_is_added_again_with_the_same_key_is_one_receiver(served: Server, a2a: A2A) -> None:
    task = a2a.send(text("tck-input-required"))
    path = f"/a2a/rest/tasks/{task['id']}/pushNotificationConfigs"
    headers = {"A2A-Version": "1.0", "Idempotency-Key": uuid4().hex}
    new = {"url": "http://127.0.0.1:9/hook"}

    first, again = (a2a.http.post(path, json=new, headers=headers) for _ in range(2))
    other = a2a.http.post(path, json={"url": "http://127.0.0.1:9/another"}, headers=headers)
    unkeyed = a2a.http.post(path, json=new, headers={"A2A-Version": "1.0"})

    assert (first.status_code, first.json()) == (again.status_code, again.json())
    assert other.status_code == 409, other.text
    ids = [row["id"] for row in sql(served, "SELECT id FROM push_configs WHERE task_id = $1::uuid", task["id"])]
    assert sorted(ids) == sorted([first.json()["id"], unkeyed.json()["id"]])


@pytest.mark.parametrize(
    "url",
    [
        "https://[::1]/", "https://0.0.0.0/", "https://169.254.169.254/latest/meta-data",
        "https://2130706433/", "https://0177.0.0.1/", "https://0x7f.1/", "https://[::ffff:127.0.0.2]/",
        "https://127.0.0.2/", "https://10.0.0.1/", "https://user@example.com/", "http://example.com/", "ftp://x.example/",
    ],
)  # fmt: skip
def test_an_address_that_must_not_be_reached_is_refused_before_there_is_a_task(a2a: A2A, url: str) -> None:
    task = a2a.send(text("tck-input-required"))

    errors = [
        a2a.error("CreateTaskPushNotificationConfig", {"taskId": task["id"], "url": url}),
        a2a.error("SendMessage", text("x", configuration={"taskPushNotificationConfig": {"url": url}})),
    ]

    assert [(one["code"], one["data"][0]["metadata"]["code"]) for one in errors] == [(-32602, "ADDRESS_REFUSED")] * 2


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({}, "url"),
        ({"url": 5}, "url"),
        ({"url": "https://x.example", "id": "x" * 300}, "id"),
        ({"url": "https://x.example", "token": "a\r\nb: c"}, "token"),
        ({"url": "https://x.example", "token": "whsec_"}, "token"),
        ({"url": "https://x.example", "authentication": "Bearer x"}, "authentication"),
        ({"url": "https://x.example", "authentication": {"credentials": "x"}}, "authentication.scheme"),
        ({"url": "https://x.example", "authentication": {"scheme": "Bear er"}}, "authentication.scheme"),
        ({"url": "https://x.example", "authentication": {"scheme": "B", "credentials": "ü"}},
         "authentication.credentials"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_configuration_is_named(a2a: A2A, fields: dict[str, Any], wrong: str) -> None:
    error = a2a.error("CreateTaskPushNotificationConfig", {"taskId": NOBODY, **fields})

    assert error["code"] == -32602
    assert [one["field"] for one in error["data"][1]["fieldViolations"]] == [wrong]


def test_a_slow_receiver_keeps_nobody_waiting(a2a: A2A) -> None:
    answered = threading.Event()
    with Receiver(Reply(held=answered)) as slow, Receiver() as quick:
        first = a2a.send(text("tck-complete-task", configuration=told_to(slow)))
        assert slow.next().state == "SUBMITTED"

        second = a2a.send(text("tck-complete-task", configuration=told_to(quick)))
        quick.until("COMPLETED")

        assert (state(first), state(second)) == ("COMPLETED", "COMPLETED")
        assert slow.received.empty()
        answered.set()
        assert [one.state for one in slow.until("COMPLETED")] == ["WORKING", "", "COMPLETED"]


def test_who_comes_too_late_for_the_end_hears_of_it(a2a: A2A) -> None:
    task = a2a.send(text("tck-complete-task"))
    with Receiver() as receiver:
        a2a.call("CreateTaskPushNotificationConfig", {"taskId": task["id"], "url": receiver.url})

        assert receiver.next().state == "COMPLETED"


def test_a_receiver_that_was_removed_is_told_nothing_more(a2a: A2A) -> None:
    with Receiver() as removed, Receiver() as kept:
        task = a2a.send(text("tck-input-required", configuration=told_to(removed, id="removed")))
        removed.until("INPUT_REQUIRED")
        a2a.call("CreateTaskPushNotificationConfig", {"taskId": task["id"], "url": kept.url})
        kept.until("INPUT_REQUIRED")
        assert a2a.answer("DeleteTaskPushNotificationConfig", {"taskId": task["id"], "id": "removed"})["result"] == {}

        a2a.send(text("done", taskId=task["id"]))

        assert [one.state for one in kept.until("COMPLETED")] == ["WORKING", "", "COMPLETED"]
        assert removed.received.empty()


def test_nobody_is_told_of_a_suspended_tenant_until_it_is_let_in_again(served: Server, a2a: A2A) -> None:
    slug = new_tenant(served)["slug"]
    owner = A2A(served, tenant=slug)
    with Receiver() as receiver, Receiver() as other, served.admin() as admin:
        task = owner.send(text("tck-long-running", configuration=told_to(receiver) | {"returnImmediately": True}))
        receiver.until("WORKING")

        assert admin.post(f"/api/tenant/{slug}/suspend", json={}).status_code == 200
        ended = "SELECT 1 FROM tasks WHERE id = $1::uuid AND state = 'succeeded'"
        wait_for(lambda: sql(served, ended, task["id"]), "the end of the task")
        # What happened later elsewhere was told meanwhile.
        a2a.send(text("tck-complete-task", configuration=told_to(other)))
        other.until("COMPLETED")
        assert "COMPLETED" not in [one.state for one in list(receiver.received.queue)]

        assert admin.post(f"/api/tenant/{slug}/resume", json={}).status_code == 200
        receiver.until("COMPLETED")


def test_a_client_of_0_3_is_told_as_0_3_has_it(a2a: A2A) -> None:
    def call(method: str, params: Any) -> Any:
        answer = a2a.http.post("/a2a", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).json()
        name = method.rpartition("/")[2].capitalize()
        check_older("0.3", f"{name}TaskPushNotificationConfigSuccessResponse", answer)
        return answer["result"]

    with Receiver() as receiver:
        task = a2a.send(text("tck-input-required"))
        inner: dict[str, Any] = {"id": "one", "url": receiver.url, "authentication": {"schemes": ["Bearer"]}}
        secrets = {"token": "t", "authentication": {"schemes": ["Bearer"], "credentials": "c"}}
        given = {"taskId": task["id"], "pushNotificationConfig": inner | secrets}

        made = call("tasks/pushNotificationConfig/set", given)
        first = receiver.next()
        a2a.send(text("done", taskId=task["id"]))
        told = receiver.until("completed")
        one = call("tasks/pushNotificationConfig/get", {"id": task["id"]})
        same = call("tasks/pushNotificationConfig/get", {"id": task["id"], "pushNotificationConfigId": "one"})
        all_of_them = call("tasks/pushNotificationConfig/list", {"id": task["id"]})
        gone = call("tasks/pushNotificationConfig/delete", {"id": task["id"], "pushNotificationConfigId": "one"})

    assert made == one == same == {"taskId": task["id"], "pushNotificationConfig": inner}
    assert (all_of_them, gone) == ([made], None)
    assert (first.state, first.headers["authorization"]) == ("input-required", "Bearer c")
    for notification in (first, *told):
        check_older("0.3", "Task", notification.json)
    assert [made["name"] for made in told[-1].json["artifacts"]] == ["talk"]


def test_what_a_killed_process_had_not_delivered_is_delivered_by_the_next() -> None:
    home = data_dir()
    with Receiver(Reply(), Reply(held=threading.Event())) as receiver:
        first = Process(CONFORMANCE, at=home).start()
        A2A(first).send(text("tck-complete-task", configuration=told_to(receiver)))
        before = [receiver.next(), receiver.next()]
        first.stop(signal.SIGKILL)

        with Process(CONFORMANCE, at=home) as second:
            # The lease of the dead: it would run out by itself.
            sql(second, "UPDATE push_configs SET due_at = now()")
            after = receiver.until("COMPLETED")

    assert [one.state for one in before] == ["SUBMITTED", "WORKING"]
    assert [one.state for one in after] == ["WORKING", "", "COMPLETED"]
    assert after[0].headers["webhook-id"] == before[1].headers["webhook-id"]


CONFIGS = {
    "CreateTaskPushNotificationConfig": {"url": "https://example.com/hook"},
    "GetTaskPushNotificationConfig": {"id": "hook"},
    "ListTaskPushNotificationConfigs": {},
    "DeleteTaskPushNotificationConfig": {"id": "hook"},
}


@pytest.mark.parametrize("method", CONFIGS)
def test_the_configurations_of_anothers_task_are_as_those_of_a_missing_one(served: Server, method: str) -> None:
    owner, other = A2A(served, user="olive", role="agent"), A2A(served, user="mallory", role="agent")
    with Receiver() as receiver:
        task = owner.send(text("tck-input-required", configuration=told_to(receiver, id="hook")))

        refused, missing = (other.error(method, {"taskId": ref, **CONFIGS[method]}) for ref in (task["id"], NOBODY))
        kept = owner.call("ListTaskPushNotificationConfigs", {"taskId": task["id"]})["configs"]

    assert unnumbered(refused).replace(task["id"], NOBODY) == unnumbered(missing)
    assert [config["id"] for config in kept] == ["hook"]


def test_a_configuration_needs_its_permission_whatever_the_message_names(served: Server) -> None:
    viewer = A2A(served, user="vera", role="viewer")
    with Receiver() as receiver:
        message = tool("identity_show", configuration=told_to(receiver))
        refused = viewer.post({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message})

    assert (refused.status_code, refused.json()["details"]) == (403, {"permission": "write:tasks"})


def test_configurations_leave_audit_records(served: Server, a2a: A2A) -> None:
    with Receiver() as receiver:
        task = a2a.send(text("tck-input-required", configuration=told_to(receiver, id="sent")))
        hook = {"taskId": task["id"], "id": "made", "url": receiver.url}
        a2a.call("CreateTaskPushNotificationConfig", hook)
        a2a.call("DeleteTaskPushNotificationConfig", {"taskId": task["id"], "id": "made"})

    rows = sql(served, "SELECT body FROM audit_records WHERE operation LIKE 'push.%' ORDER BY id")
    records = [record for row in rows if (record := json.loads(row["body"])).get("resource") == task["id"]]
    assert [(record["operation"], record["details"]["config"], record["subject"]) for record in records] == [
        ("push.create", "sent", "admin"),
        ("push.create", "made", "admin"),
        ("push.delete", "made", "admin"),
    ]


def test_nothing_is_delivered_for_a_caller_who_was_disabled(served: Server) -> None:
    slug = new_tenant(served)["slug"]
    eve = A2A(served, tenant=slug, user="eve", role="agent")
    with Receiver() as receiver, served.client(served.token(tenant=slug)) as admin:
        user = invite(admin, "eve", "agent")
        task = eve.send(text("tck-input-required", configuration=told_to(receiver, id="hook")))
        receiver.until("INPUT_REQUIRED")
        done(admin.post(f"/api/users/{user['id']}/disable"))
        rita = A2A(served, tenant=slug, user="rita", role="org_admin")
        rita.call("CancelTask", {"id": task["id"]})

        given_up = "SELECT reason FROM push_configs WHERE task_id = $1::uuid AND state = 'failed'"
        [row] = wait_for(lambda: sql(served, given_up, task["id"]), "the end of it")

    assert row["reason"] == "the credentials that asked for it are no longer valid"
