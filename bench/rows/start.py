import http.client
import json
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.harness import DRAGOMAN, Server, data_dir, note_of

from bench.process import resident_mb
from bench.subject import Effort
from bench.table import Line, Outcome

MOST_WARM_S = 3.0
MOST_IDLE_MB = 90
_SETTLE_S = 1.0
_LONGEST_S = 60.0


@dataclass(frozen=True, slots=True)
class Start:
    """One life of a server."""

    ready_s: float
    stop_s: float
    idle_mb: float


def run(effort: Effort) -> Outcome:
    """`dragoman serve` until /ready answers, on an empty data directory and on one that was used; then its memory."""
    colds: list[Start] = []
    warms: list[Start] = []
    for _ in range(effort.starts):
        at = data_dir()
        try:
            colds.append(_live(at))
            warms += [_live(at) for _ in range(2)]
        finally:
            shutil.rmtree(at.parent, ignore_errors=True)
    cold_s, warm_s = min(start.ready_s for start in colds), min(start.ready_s for start in warms)
    stop_s, idle_mb = max(start.stop_s for start in colds + warms), max(start.idle_mb for start in warms)
    import_s = min(_import_cpu_s() for _ in range(3))
    return Outcome(
        "Start-up with embedded PostgreSQL and Valkey",
        [
            Line("cold, until ready", f"{cold_s:.2f} s"),
            Line("warm, until ready", f"{warm_s:.2f} s", target=f"< {MOST_WARM_S:g} s", met=warm_s < MOST_WARM_S),
            Line("  importing, CPU", f"{import_s:.2f} s"),
            Line("stop, slowest", f"{stop_s:.2f} s"),
            Line("web process, idle", f"{idle_mb:.0f} MB", target=f"<= {MOST_IDLE_MB} MB", met=idle_mb <= MOST_IDLE_MB),
        ],
        {"cold": [asdict(each) for each in colds], "warm": [asdict(each) for each in warms], "import_cpu_s": import_s},
    )


def _live(at: Path) -> Start:
    server = Server(at=at)
    with server.log.open("ab") as log:
        began = time.perf_counter()
        process = subprocess.Popen([str(DRAGOMAN), "serve"], env=server.environment, stdout=log, stderr=log)
        try:
            _wait_until_ready(process, at / "server.json", server.log)
            ready_s = time.perf_counter() - began
            time.sleep(_SETTLE_S)
            idle_mb = resident_mb(process.pid)
        finally:
            told = time.perf_counter()
            process.send_signal(signal.SIGTERM)
            process.wait(20)
    return Start(ready_s, time.perf_counter() - told, idle_mb)


def _wait_until_ready(process: subprocess.Popen[bytes], note: Path, log: Path) -> None:
    deadline = time.perf_counter() + _LONGEST_S
    while not (note_of(note, process.pid) and _ready(str(json.loads(note.read_text())["url"]))):
        if process.poll() is not None or time.perf_counter() > deadline:
            raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}")
        time.sleep(0.005)


def _ready(url: str) -> bool:
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=2)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _import_cpu_s() -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "import dragoman.__main__, dragoman.app.serving"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
