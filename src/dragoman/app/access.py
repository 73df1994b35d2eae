"""Puts together who may touch a task, and how many streams there may be."""

from dragoman.gate import Observers
from dragoman.infra.auth.authority import Authority
from dragoman.infra.config import Settings
from dragoman.infra.limits import Admission, OpenStreams, StreamCaps
from dragoman.operations import Handlers
from dragoman.services.tasks.access import TaskAccess


def build_access(
    settings: Settings, handlers: Handlers, admission: Admission, authority: Authority, observers: Observers
) -> tuple[TaskAccess, OpenStreams]:
    """Build the rule of access to tasks, and the streams of this process."""
    access = TaskAccess(
        authority.permits,
        is_revoked=admission.is_revoked,
        find_operation=handlers.find_tool,
        security=observers.security,
    )
    limits = settings.limits
    caps = StreamCaps(limits.streams_per_caller, limits.streams_per_tenant, limits.streams_per_process)
    streams = OpenStreams(
        admission.is_revoked,
        caps.within_files(),
        check_s=limits.stream_check_s,
        metrics=observers.metrics,
        security=observers.security,
    )
    return access, streams
