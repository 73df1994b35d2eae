"""gRPC and the processes behind it: TLS, several that share the port, and an end that cuts nobody off."""

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import trustme
from a2a.types import a2a_pb2 as pb

from tests.doors.a2a.calling import CONFORMANCE, busy_words
from tests.doors.a2a.grpc_calling import GrpcCaller, address_of, refused, said
from tests.harness import Server, wait_for
from tests.patience import PATIENCE_S
from tests.tenants import beside


def test_two_processes_answer_over_tls_on_one_port(served: Server, tmp_path: Path) -> None:
    ca = trustme.CA()
    issued = ca.issue_cert("localhost", "127.0.0.1")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(str(key))
    secure = {"DRAGOMAN_TLS_CERT": str(certificate), "DRAGOMAN_TLS_KEY": str(key), "DRAGOMAN_WORKERS": "2"}
    trusting, doubting = grpc.ssl_channel_credentials(ca.cert_pem.bytes()), grpc.ssl_channel_credentials()
    token = f"Bearer {served.token()}"

    with Server(CONFORMANCE | beside(served) | secure) as server:
        address = address_of(server, verify=False)
        wait_for(lambda: _listeners(address) == 2, "both processes to listen")
        with GrpcCaller(address, trusting, authorization=token) as caller:
            tasks = [caller.call("SendMessage", said("hello")).task for _ in range(4)]
            listed = {one.id for one in caller.call("ListTasks", pb.ListTasksRequest(page_size=100)).tasks}
        refusals: list[grpc.StatusCode] = []
        for credentials in (doubting, None):
            with GrpcCaller(address, credentials, authorization=token) as stranger:
                refusals.append(refused(lambda: stranger.call("SendMessage", said("hello"))).code())

    assert {one.id for one in tasks} <= listed
    assert refusals == [grpc.StatusCode.UNAVAILABLE] * 2


def test_a_server_that_is_told_to_end_ends_open_streams_and_another_finishes_the_work(
    served: Server, tmp_path: Path
) -> None:
    token = f"Bearer {served.token()}"
    server = Server(CONFORMANCE | beside(served) | {"DRAGOMAN_DRAIN_S": "60"})
    begun, ends = threading.Event(), list[grpc.StatusCode]()

    def follow(caller: GrpcCaller) -> list[pb.StreamResponse]:
        seen: list[pb.StreamResponse] = []
        try:
            for event in caller.call("SendStreamingMessage", said(busy_words(tmp_path / "go"))):
                seen.append(event)
                begun.set()
        except grpc.RpcError as error:
            ends.append(error.code())
        return seen

    with server, GrpcCaller(address_of(server), authorization=token) as caller, ThreadPoolExecutor(2) as pool:
        address = address_of(server)
        following = pool.submit(follow, caller)
        assert begun.wait(PATIENCE_S)
        ending = pool.submit(server.stop, signal.SIGTERM)
        events = following.result(PATIENCE_S)
        status = ending.result(PATIENCE_S)
        with GrpcCaller(address, authorization=token) as late:
            refusal = refused(lambda: late.call("SendMessage", said("hello")))

    assert ends == [grpc.StatusCode.UNAVAILABLE]
    assert status == 0
    (tmp_path / "go").touch()
    with GrpcCaller(address_of(served), authorization=token) as caller:
        task = pb.GetTaskRequest(id=events[0].task.id)
        wait_for(lambda: caller.call("GetTask", task).status.state == pb.TASK_STATE_COMPLETED, "the other to finish")
    assert refusal.code() == grpc.StatusCode.UNAVAILABLE


def test_a_stream_that_outlasts_the_drain_is_ended_and_the_task_is_kept(served: Server) -> None:
    token = f"Bearer {served.token()}"
    server = Server(CONFORMANCE | beside(served) | {"DRAGOMAN_DRAIN_S": "1"})

    with server, GrpcCaller(address_of(server), authorization=token) as caller:
        stream = caller.call("SendStreamingMessage", said("tck-cancel"))
        task = next(stream).task
        status = server.stop(signal.SIGTERM)
        error = refused(lambda: list(stream))

    assert status == 0
    assert error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    with GrpcCaller(address_of(served), authorization=token) as caller:
        assert caller.call("GetTask", pb.GetTaskRequest(id=task.id)).status.state == pb.TASK_STATE_WORKING
        caller.call("CancelTask", pb.CancelTaskRequest(id=task.id))


def _listeners(address: str) -> int:
    """How many sockets take calls at a port; each process has one."""
    port = f":{int(address.rpartition(':')[2]):04X}"
    tables = (Path("/proc/net") / name for name in ("tcp", "tcp6"))
    rows = [line.split() for table in tables for line in table.read_text().splitlines()]
    return len([row for row in rows if row[1].endswith(port) and row[3] == "0A"])
