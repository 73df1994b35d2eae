"""Shows that every door of a running server does the same: golden traces through each, held against each other."""

from dragoman.parity.running import Finding, Suite, run_suite
from dragoman.parity.traces import Trace, TraceError, read_traces

__all__ = ["Finding", "Suite", "Trace", "TraceError", "read_traces", "run_suite"]
