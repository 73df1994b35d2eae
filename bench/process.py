"""What the kernel says of a process (Linux: it is read from /proc)."""

import os
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """CPU time that a process has used, in user and kernel mode."""
    # The name in parentheses may hold blanks; what follows it does not.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S


def children(pid: int) -> list[int]:
    """All that it started and that still run, and what those started."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        try:
            tasks = list(Path(f"/proc/{parent}/task").iterdir())
            started = [int(child) for task in tasks for child in (task / "children").read_text().split()]
        except OSError:  # it ended while we looked
            continue
        found += started
        waiting += started
    return found


def tree_cpu_s(pid: int) -> float:
    """CPU time of everything below a process, without the process itself."""
    total = 0.0
    for child in children(pid):
        try:
            total += cpu_s(child)
        except OSError:
            continue
    return total


def servers(pid: int) -> list[int]:
    """The processes that answer requests: the children of `serve --workers N`, else the process itself."""
    crew = [child for child in children(pid) if "serve-child" in _command(child)]
    return crew or [pid]


def resident_mb(pid: int) -> float:
    """Resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no resident memory")


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
