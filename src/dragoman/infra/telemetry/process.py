"""What this process uses of the machine."""

import os
import resource
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_STATM: Final = Path("/proc/self/statm")


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """Memory, CPU time since the start, and open descriptors."""

    resident_bytes: int
    cpu_s: float
    open_fds: int


def sample_process() -> ProcessSample:
    """Measure now; about 20 microseconds on Linux. Without /proc the memory is the peak, not the present."""
    times = os.times()
    return ProcessSample(resident_bytes=_resident_bytes(), cpu_s=times.user + times.system, open_fds=_open_fds())


def _resident_bytes() -> int:
    try:
        return int(_STATM.read_bytes().split()[1]) * _PAGE_BYTES
    except FileNotFoundError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def _open_fds() -> int:
    # Reading the directory opens one more, which is not of the process's own making.
    return len(os.listdir("/dev/fd")) - 1  # noqa: PTH208 - the names alone are wanted
