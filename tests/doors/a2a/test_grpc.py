"""gRPC, which goes through the same edge: who is let in, to what, and how it is told when something is wrong."""

import itertools
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import grpc
import pytest
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToDict

from tests.doors.a2a.calling import A2A, CONFORMANCE
from tests.doors.a2a.grpc_calling import GrpcCaller, address_of, reason_of, refused, said
from tests.doors.rest.calling import data, new_tenant, org_admin
from tests.harness import InProcess, Server
from tests.minutes import in_one_minute
from tests.receiver import Receiver
from tests.tenants import beside

TOOLS = "urn:dragoman:a2a:tools:1"
SMALL = 100_000


@pytest.fixture(scope="module")
def address(served: Server) -> str:
    return address_of(served)


@pytest.fixture
def owner(served: Server, address: str) -> Iterator[GrpcCaller]:
    with GrpcCaller(address, authorization=f"Bearer {served.token()}") as caller:
        yield caller


@pytest.fixture(scope="module")
def strict(served: Server) -> Iterator[Server]:
    """Two messages a minute and tenant, and small ones."""
    tight = {"DRAGOMAN_LIMITS__A2A_TENANT_PER_MIN": "2", "DRAGOMAN_MAX_BODY_BYTES": str(SMALL)}
    with InProcess(CONFORMANCE | beside(served) | tight) as running:
        yield running


def every_method(task_id: str, config_id: str, url: str) -> dict[str, Any]:
    """A request of each kind about one task."""
    return {
        "SendMessage": said("done", task_id=task_id),
        "SendStreamingMessage": said("done", task_id=task_id),
        "GetTask": pb.GetTaskRequest(id=task_id),
        "CancelTask": pb.CancelTaskRequest(id=task_id),
        "SubscribeToTask": pb.SubscribeToTaskRequest(id=task_id),
        "CreateTaskPushNotificationConfig": pb.TaskPushNotificationConfig(task_id=task_id, url=url),
        "GetTaskPushNotificationConfig": pb.GetTaskPushNotificationConfigRequest(task_id=task_id, id=config_id),
        "ListTaskPushNotificationConfigs": pb.ListTaskPushNotificationConfigsRequest(task_id=task_id),
        "DeleteTaskPushNotificationConfig": pb.DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=config_id),
    }


def test_another_tenant_finds_nothing_by_any_method(served: Server, address: str, owner: GrpcCaller) -> None:
    with Receiver() as receiver:
        task = owner.call("SendMessage", said("tck-multi-turn")).task
        wanted = pb.TaskPushNotificationConfig(task_id=task.id, url=receiver.url)
        config = owner.call("CreateTaskPushNotificationConfig", wanted)
        requests = every_method(task.id, config.id, receiver.url)
        token = served.token(tenant=new_tenant(served)["slug"])

        with GrpcCaller(address, authorization=f"Bearer {token}") as rival:
            refusals = {method: rival.refusal(method, request) for method, request in requests.items()}
            listed = rival.call("ListTasks", pb.ListTasksRequest())

    methods = {method.name for method in pb.DESCRIPTOR.services_by_name["A2AService"].methods}
    assert set(refusals) == methods - {"ListTasks", "GetExtendedAgentCard"}
    assert set(refusals.values()) == {(grpc.StatusCode.NOT_FOUND, "TASK_NOT_FOUND")}
    assert (list(listed.tasks), listed.total_size) == ([], 0)
    assert owner.call("GetTask", pb.GetTaskRequest(id=task.id)) == task


def test_push_notifications_are_asked_for_and_arrive(owner: GrpcCaller) -> None:
    with Receiver() as receiver:
        task = owner.call("SendMessage", said("tck-multi-turn")).task
        wanted = pb.TaskPushNotificationConfig(task_id=task.id, url=receiver.url)
        made = owner.call("CreateTaskPushNotificationConfig", wanted)
        named = pb.GetTaskPushNotificationConfigRequest(task_id=task.id, id=made.id)
        found = owner.call("GetTaskPushNotificationConfig", named)
        listed = owner.call(
            "ListTaskPushNotificationConfigs", pb.ListTaskPushNotificationConfigsRequest(task_id=task.id)
        )
        owner.call("SendMessage", said("done", task_id=task.id))
        told = receiver.until("COMPLETED")
        owner.call(
            "DeleteTaskPushNotificationConfig", pb.DeleteTaskPushNotificationConfigRequest(task_id=task.id, id=made.id)
        )

    assert (found, list(listed.configs)) == (made, [made])
    assert told[-1].json["statusUpdate"]["taskId"] == task.id
    assert owner.refusal("GetTaskPushNotificationConfig", named)[0] == grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    "credentials",
    [{}, {"authorization": "Bearer nonsense"}, {"authorization": "Basic YTpi"}, {"x_api_key": "dk_nobody"}],
    ids=["none", "no token", "another scheme", "no key"],
)
def test_who_cannot_be_known_is_refused_on_every_method(address: str, credentials: dict[str, str]) -> None:
    requests = {
        **every_method("any", "any", "http://127.0.0.1:9/"),
        "ListTasks": pb.ListTasksRequest(),
        "GetExtendedAgentCard": pb.GetExtendedAgentCardRequest(),
    }

    with GrpcCaller(address, **credentials) as stranger:
        refusals = {stranger.refusal(method, request) for method, request in requests.items()}

    assert refusals == {(grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")}


@pytest.mark.parametrize("header", ["x_api_key", "authorization"])
def test_an_api_key_is_a_credential(served: Server, address: str, header: str) -> None:
    tenant = new_tenant(served)["slug"]
    with org_admin(served, tenant) as admin:
        key = data(admin.post("/api/keys", json={"name": "agent", "role": "agent"}), 201)["secret"]

    with GrpcCaller(address, **{header: key if header == "x_api_key" else f"Bearer {key}"}) as caller:
        task = caller.call("SendMessage", said("hello")).task
        listed = caller.call("ListTasks", pb.ListTasksRequest())

    assert [one.id for one in listed.tasks] == [task.id]


def test_what_may_not_be_done_is_refused_as_such(served: Server, address: str) -> None:
    with GrpcCaller(address, authorization=f"Bearer {served.token(role='viewer')}") as viewer:
        code, reason = viewer.refusal("SendMessage", said("hello"))

    assert (code, reason) == (grpc.StatusCode.PERMISSION_DENIED, "UNAUTHORIZED")


@pytest.mark.parametrize("version", ["0.3", "2.0", "one"])
def test_a_version_that_is_not_served_is_refused(owner: GrpcCaller, version: str) -> None:
    refusal = owner.refusal("GetTask", pb.GetTaskRequest(id="any"), a2a_version=version)

    assert refusal == (grpc.StatusCode.FAILED_PRECONDITION, "VERSION_NOT_SUPPORTED")


def test_extensions_that_we_have_are_named_and_others_passed_over(owner: GrpcCaller) -> None:
    _, plain = owner.headed("SendMessage", said("hello"), a2a_version="1.0")
    _, known = owner.headed("SendMessage", said("hello"), a2a_extensions=f"urn:nobody:knows, {TOOLS}")
    _, unknown = owner.headed("SendMessage", said("hello"), a2a_extensions="urn:nobody:knows")

    assert [head.get("a2a-extensions") for head in (plain, known, unknown)] == [None, TOOLS, None]
    assert {head["a2a-version"] for head in (plain, known, unknown)} == {"1.0"}


def test_a_repeated_message_is_answered_with_the_same_task(owner: GrpcCaller) -> None:
    key = uuid4().hex

    first, before = owner.headed("SendMessage", said("hello"), idempotency_key=key)
    again, after = owner.headed("SendMessage", said("hello"), idempotency_key=key)

    assert again.task.id == first.task.id
    assert (before.get("idempotency-replayed"), after.get("idempotency-replayed")) == (None, "true")
    assert owner.refusal("SendMessage", said("other"), idempotency_key=key)[1] == "IDEMPOTENCY_CONFLICT"


def test_one_who_was_cut_off_gets_what_was_missed(owner: GrpcCaller, a2a: A2A) -> None:
    task = owner.call("SendMessage", said("tck-multi-turn")).task
    with a2a.stream("SubscribeToTask", {"id": task.id}, **{"Last-Event-ID": "0"}) as numbered:
        (first, _), *others = itertools.islice(numbered, 3)

    stream = owner.call("SubscribeToTask", pb.SubscribeToTaskRequest(id=task.id), last_event_id=str(first))
    missed = list(itertools.islice(stream, 2))
    stream.cancel()

    assert [MessageToDict(event) for event in missed] == [event for _, event in others]


def test_a_last_event_id_that_is_none_is_refused(owner: GrpcCaller) -> None:
    task = owner.call("SendMessage", said("tck-multi-turn")).task

    refusal = owner.refusal("SubscribeToTask", pb.SubscribeToTaskRequest(id=task.id), last_event_id="x")

    assert refusal == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_PARAMS")


@in_one_minute
def test_a_tenants_messages_are_limited_and_it_is_told_when_to_come_back(strict: Server, served: Server) -> None:
    token = served.token(tenant=new_tenant(served)["slug"])
    with GrpcCaller(address_of(strict), authorization=f"Bearer {token}") as caller:
        tasks = [caller.call("SendMessage", said("hello")).task for _ in range(2)]
        error = refused(lambda: caller.call("SendMessage", said("hello")))
        found = caller.call("GetTask", pb.GetTaskRequest(id=tasks[0].id))

    assert (error.code(), reason_of(error)) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "RATE_LIMITED")
    assert int(dict(error.trailing_metadata())["retry-after"]) > 0
    assert found.id == tasks[0].id


def test_a_message_that_is_too_large_is_refused_with_both_sizes(strict: Server, served: Server) -> None:
    with GrpcCaller(address_of(strict), authorization=f"Bearer {served.token()}") as caller:
        error = refused(lambda: caller.call("SendMessage", said("x" * SMALL)))

    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert str(SMALL) in error.details()
