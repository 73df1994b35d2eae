"""Metrics: names and labels as promised, bounded, and right when several processes count."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dragoman.infra.telemetry import metrics as module
from dragoman.infra.telemetry.metrics import Metrics, mark_process_dead
from dragoman.infra.telemetry.multiprocess import VARIABLE, prepare_multiprocess
from dragoman.infra.telemetry.process import ProcessSample, sample_process
from tests.patience import PATIENCE_S


def scrape(metrics: Metrics) -> dict[str, float]:
    body, content_type = metrics.render()
    assert content_type.startswith("text/plain")
    return parse(body.decode())


def parse(text: str) -> dict[str, float]:
    rows = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in rows if "_created" not in name}


@pytest.mark.req("GW-408")
def test_requests_are_counted_and_timed_by_endpoint_and_status() -> None:
    metrics = Metrics()

    metrics.http.observe("GET", "/v1/memory/{id}", 200, 0.004)
    metrics.http.observe("GET", "/v1/memory/{id}", 200, 0.3)
    metrics.http.observe("GET", "/v1/memory/{id}", 503, 20.0)

    found = scrape(metrics)
    where = 'method="GET",route="/v1/memory/{id}"'
    assert found[f'dragoman_http_requests_total{{{where},status="200"}}'] == 2
    assert found[f'dragoman_http_requests_total{{{where},status="503"}}'] == 1
    assert found[f'dragoman_http_request_seconds_bucket{{le="0.001",{where}}}'] == 0
    assert found[f'dragoman_http_request_seconds_bucket{{le="0.005",{where}}}'] == 1
    assert found[f'dragoman_http_request_seconds_bucket{{le="10.0",{where}}}'] == 2
    assert found[f"dragoman_http_request_seconds_count{{{where}}}"] == 3


def test_strangers_cannot_make_series(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CHILDREN", 3)
    monkeypatch.setattr(module, "MAX_TENANTS", 3)
    metrics = Metrics()

    for n in range(10):
        metrics.http.observe("GET", f"/route/{n}", 200, 0.1)
        metrics.http.observe(f"ODD{n}", "", 404, 0.1)
        metrics.limits.refused(f"tenant-{n}", "memory", "tenant")

    found = scrape(metrics)
    assert found['dragoman_http_requests_total{method="GET",route="other",status="200"}'] == 7
    assert found['dragoman_http_requests_total{method="other",route="unmatched",status="404"}'] == 10
    assert found['dragoman_rate_limited_total{limit="tenant",skill_name="memory",tenant_id="other"}'] == 7


@pytest.mark.req("GW-408", "GW-201")
def test_rate_limits_show_refusals_and_how_full_they_run() -> None:
    metrics = Metrics()

    metrics.limits.refused("t1", "memory", "tenant")
    metrics.limits.used("tenant", 0.3)
    metrics.limits.used("tenant", 1.0)

    found = scrape(metrics)
    assert found['dragoman_rate_limited_total{limit="tenant",skill_name="memory",tenant_id="t1"}'] == 1
    assert found['dragoman_rate_limit_used_ratio_bucket{le="0.5",limit="tenant"}'] == 1
    assert found['dragoman_rate_limit_used_ratio_bucket{le="1.0",limit="tenant"}'] == 2


def test_operations_and_dependencies_have_their_series() -> None:
    metrics = Metrics()

    metrics.operations.observe("memory.add", "memory", "ok", 0.01)
    metrics.dependencies.checked("postgresql", up=False, seconds=0.2)
    metrics.dependencies.breaker("jwks", "open")
    metrics.http.opened()
    metrics.http.opened()
    metrics.http.closed()

    found = scrape(metrics)
    assert found['dragoman_operations_total{operation="memory.add",outcome="ok",skill="memory"}'] == 1
    assert found['dragoman_operation_seconds_count{operation="memory.add",skill="memory"}'] == 1
    assert found['dragoman_dependency_up{dependency="postgresql"}'] == 0
    assert found['dragoman_dependency_latency_seconds{dependency="postgresql"}'] == 0.2
    assert found['dragoman_breaker_state{upstream="jwks"}'] == 2
    assert found["dragoman_open_requests"] == 1


def test_cpu_time_is_counted_once_although_it_is_sampled_as_a_sum() -> None:
    metrics = Metrics()

    for cpu_s in (2.0, 2.5):
        sample = ProcessSample(resident_bytes=1000, cpu_s=cpu_s, open_fds=4)
        metrics.process.sampled(sample, loop_lag_s=0.01)

    found = scrape(metrics)
    assert found["dragoman_process_cpu_seconds_total"] == 2.5
    assert found["dragoman_process_resident_bytes"] == 1000


def test_a_process_can_be_measured() -> None:
    sample = sample_process()

    assert sample.resident_bytes > 1_000_000
    assert sample.cpu_s > 0
    assert sample.open_fds >= 3


def test_only_stale_files_of_metrics_are_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    (tmp_path / "counter_1.db").write_bytes(b"old")
    (tmp_path / "notes.txt").write_bytes(b"mine")

    prepare_multiprocess(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_sharing_that_was_prepared_too_late_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    prepare_multiprocess(tmp_path)

    with pytest.raises(RuntimeError, match="before prepare_multiprocess"):
        Metrics()


# It counts, says so, and stays alive until its standard input ends, so that its live gauges count too.
CHILD = """
import sys
import threading
from dragoman.infra.telemetry.metrics import Metrics
from dragoman.infra.telemetry.process import ProcessSample
n = int(sys.argv[1])
metrics = Metrics()
for _ in range(n):
    metrics.http.observe("GET", "/x", 200, 0.004)
metrics.http.opened()
metrics.dependencies.checked("valkey", up=n == 2, seconds=n / 10)
metrics.process.sampled(ProcessSample(resident_bytes=100 * n, cpu_s=float(n), open_fds=n), loop_lag_s=n / 100)
metrics.security_event("access_denied")
print("ready", flush=True)
sys.stdin.read()
"""

SCRAPE = """
import sys
import threading
from dragoman.infra.telemetry.metrics import Metrics
sys.stdout.buffer.write(Metrics().render()[0])
"""


@pytest.mark.req("GW-408")
def test_two_processes_are_scraped_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    prepare_multiprocess(tmp_path / "metrics")
    pipe = subprocess.PIPE
    children = [
        subprocess.Popen([sys.executable, "-c", CHILD, n], stdin=pipe, stdout=pipe, text=True) for n in ("2", "3")
    ]
    try:
        assert [child.stdout.readline() for child in children if child.stdout] == ["ready\n", "ready\n"]
        alive = scrape_elsewhere()
    finally:
        for child in children:
            child.communicate("", timeout=PATIENCE_S)
    mark_process_dead(children[1].pid)
    after = scrape_elsewhere()

    assert alive['dragoman_http_requests_total{method="GET",route="/x",status="200"}'] == 5
    assert alive['dragoman_http_request_seconds_bucket{le="0.005",method="GET",route="/x"}'] == 5
    assert alive['dragoman_security_events_total{event="access_denied"}'] == 2
    assert alive["dragoman_open_requests"] == 2
    assert alive["dragoman_processes"] == 2
    assert alive["dragoman_process_resident_bytes"] == 500
    assert alive["dragoman_process_cpu_seconds_total"] == 5
    assert alive["dragoman_event_loop_lag_seconds"] == 0.03
    assert alive['dragoman_dependency_up{dependency="valkey"}'] == 0
    assert alive['dragoman_dependency_latency_seconds{dependency="valkey"}'] == 0.3
    assert after['dragoman_http_requests_total{method="GET",route="/x",status="200"}'] == 5
    assert after['dragoman_dependency_up{dependency="valkey"}'] == 1
    assert (after["dragoman_open_requests"], after["dragoman_processes"]) == (1, 1)


def scrape_elsewhere() -> dict[str, float]:
    """From a process that shares; this one imported prometheus_client long ago."""
    ran = subprocess.run(
        [sys.executable, "-c", SCRAPE], stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE_S
    )
    return parse(ran.stdout)


def test_what_threads_enter_at_once_is_counted_once() -> None:
    metrics = Metrics()

    def count() -> None:
        for _ in range(500):
            metrics.http.observe("GET", "/api/me", 200, 0.001)
            metrics.render()

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert scrape(metrics)['dragoman_http_requests_total{method="GET",route="/api/me",status="200"}'] == 1500
