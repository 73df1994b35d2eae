"""The security stream: every refusal in a file of its own, in the log, and counted."""

import io
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest
import structlog

from dragoman.context import RequestContext, enter_request
from dragoman.infra.telemetry.files import AppendFile
from dragoman.infra.telemetry.logs import configure_logs
from dragoman.infra.telemetry.metrics import Metrics
from dragoman.infra.telemetry.security import SecurityEvents
from tests.infra.log_lines import restored_logging
from tests.patience import PATIENCE_S


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    with restored_logging():
        yield


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "security.jsonl"


@pytest.fixture
def log(file: Path) -> io.StringIO:
    stream = io.StringIO()
    configure_logs(format="json", level="info", security_log=file, stream=stream)
    return stream


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.req("GW-203")
def test_a_denial_is_recorded_with_its_context_in_both_streams(file: Path, log: io.StringIO) -> None:
    metrics = Metrics()

    def deny() -> None:
        request = RequestContext(id="r1", door="rest", ip="10.0.0.9", operation="memory.add", route="/v1/memory")
        enter_request(request)
        SecurityEvents(metrics).denied(permission="memory:write", reason="role viewer", resource="m1")

    copy_context().run(deny)

    (event,) = read(file)
    assert json.loads(log.getvalue()) == event
    event.pop("time")
    assert event == {
        "severity": "WARNING",
        "message": "security: access_denied",
        "request_id": "r1",
        "stream": "security",
        "event": "access_denied",
        "ip": "10.0.0.9",
        "door": "rest",
        "operation": "memory.add",
        "route": "/v1/memory",
        "permission": "memory:write",
        "reason": "role viewer",
        "resource": "m1",
    }
    assert b'dragoman_security_events_total{event="access_denied"} 1.0' in metrics.render()[0]


@pytest.mark.req("GW-201", "GW-203")
def test_each_kind_of_event_has_its_name(file: Path, log: io.StringIO) -> None:
    events = SecurityEvents(Metrics())

    events.rejected_credentials("expired", credential_id="k1")
    events.limited("tenant", retry_after_s=7)
    events.foreign_origin("https://evil.example\r\n")
    events.emit("revoked", subject="ada")
    structlog.get_logger().info("an ordinary line")

    names = ["credentials_rejected", "rate_limited", "foreign_origin", "revoked"]
    assert [event["event"] for event in read(file)] == names
    assert [event.get("reason") for event in read(file)][:2] == ["expired", "limit tenant used up"]
    assert len(log.getvalue().splitlines()) == 5


@pytest.mark.req("GW-404")
def test_the_credential_itself_is_never_recorded(file: Path, log: io.StringIO) -> None:
    SecurityEvents(Metrics()).rejected_credentials("unknown key dgm_live_0123456789", credential_id="k1")

    (event,) = read(file)
    assert (event["reason"], event["credential_id"]) == ("unknown key [redacted]", "k1")
    assert "0123456789" not in log.getvalue()


def test_the_file_is_written_at_any_log_level_and_as_json(file: Path) -> None:
    stream = io.StringIO()
    configure_logs(format="text", level="critical", security_log=file, stream=stream)

    SecurityEvents(Metrics()).limited("ip", retry_after_s=1)

    assert (read(file)[0]["event"], stream.getvalue()) == ("rate_limited", "")


def test_a_stranger_cannot_make_a_record_grow(file: Path, log: io.StringIO) -> None:
    SecurityEvents(Metrics()).foreign_origin("x" * 100_000)

    assert len(read(file)[0]["origin"]) == 500


def test_only_its_owner_reads_the_file(file: Path, log: io.StringIO) -> None:
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_rotated_file_is_followed_within_a_second(tmp_path: Path) -> None:
    now, path = [0.0], tmp_path / "security.jsonl"
    file = AppendFile(path, clock=lambda: now[0])

    file.append(b"one")
    path.rename(tmp_path / "security.1")
    now[0] = 0.9
    file.append(b"two")
    now[0] = 1.0
    file.append(b"three")
    file.close()

    assert ((tmp_path / "security.1").read_bytes(), path.read_bytes()) == (b"one\ntwo\n", b"three\n")


def test_a_file_that_cannot_be_written_is_said_in_the_log(file: Path, log: io.StringIO) -> None:
    output = configure_logs(format="json", level="info", security_log=file, stream=log)
    output.close()

    SecurityEvents(Metrics()).limited("ip", retry_after_s=1)

    messages = [json.loads(line)["message"] for line in log.getvalue().splitlines()]
    assert messages == ["security log not written", "security: rate_limited"]


WRITER = """
import sys
from pathlib import Path
from dragoman.infra.telemetry.files import AppendFile
file = AppendFile(Path(sys.argv[1]))
for n in range(300):
    file.append(sys.argv[2].encode() * 3000)
"""


def test_lines_of_several_processes_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "security.jsonl"

    writers = [subprocess.Popen([sys.executable, "-c", WRITER, os.fspath(path), mark]) for mark in "abc"]
    codes = [writer.wait(timeout=PATIENCE_S) for writer in writers]

    lines = path.read_bytes().splitlines()
    assert codes == [0, 0, 0]
    assert sorted(lines) == [mark * 3000 for mark in (b"a", b"b", b"c") for _ in range(300)]
