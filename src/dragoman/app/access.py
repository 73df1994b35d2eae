"""Puts together who may touch a task, and how many streams there may be."""

from dragoman.app.foundation import Foundation
from dragoman.infra.auth.endings import CredentialEndings
from dragoman.infra.config import Settings
from dragoman.infra.limits import OpenStreams, StreamCaps
from dragoman.operations import Handlers
from dragoman.services.tasks.access import TaskAccess
from dragoman.services.tenancy.store import Directory


def build_access(settings: Settings, handlers: Handlers, base: Foundation) -> tuple[TaskAccess, OpenStreams]:
    """Build the rule of access to tasks, and the streams of this process."""
    access = TaskAccess(
        base.authority.permits,
        is_revoked=base.admission.is_revoked,
        find_operation=handlers.find_tool,
        security=base.observers.security,
    )
    limits = settings.limits
    caps = StreamCaps(limits.streams_per_caller, limits.streams_per_tenant, limits.streams_per_process)
    endings = CredentialEndings(base.admission.is_revoked, Directory(base.db), keep_s=limits.stream_check_s / 2)
    streams = OpenStreams(
        endings.find,
        caps.within_files(),
        check_s=limits.stream_check_s,
        metrics=base.observers.metrics,
        security=base.observers.security,
    )
    return access, streams
