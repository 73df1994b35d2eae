"""Shifts the wall clock of the process that has this directory on its path; the monotonic clock stays."""

import datetime as dt
import os
import time
from typing import Any

_AHEAD_S = float(os.environ.get("CHAOS_AHEAD_S", "0"))
_time, _time_ns = time.time, time.time_ns


class _Ahead(dt.datetime):
    """`datetime` whose idea of now is shifted."""

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return super().now(tz) + dt.timedelta(seconds=_AHEAD_S)

    @classmethod
    def utcnow(cls) -> Any:
        return cls.now(dt.UTC).replace(tzinfo=None)


time.time = lambda: _time() + _AHEAD_S
time.time_ns = lambda: _time_ns() + int(_AHEAD_S * 1e9)
dt.datetime = _Ahead
