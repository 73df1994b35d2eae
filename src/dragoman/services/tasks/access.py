"""Who may touch a task: one rule for every door, list, stream, resource and push configuration.

A task belongs to the subject that began it. Others need a permission that says so: `manage:conversations` for turns of
conversations, `manage:tasks` for delegated actions. What a tool returned is shown only to those who may run that tool,
so a key with few scopes does not read through a task what it may not read otherwise. To everyone else a task does not
exist. Moving a task by hand, and saying what became of an effect, needs `manage:tasks` even of the owner: that writes
results which others rely on.

Work that waits is checked again when it is run: a caller whose credential was revoked, who was disabled or deleted,
whose tenant was suspended or who lost the permission does nothing more.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dragoman.context import Caller
from dragoman.errors import Forbidden
from dragoman.infra.telemetry import SecurityEvents
from dragoman.operations import AnyOperation, Passage
from dragoman.services.tasks.errors import CallerRefused, TaskNotFound
from dragoman.services.tasks.models import Task, ToolCall, find_tool_call
from dragoman.services.tasks.passages import SEND_MESSAGE

OVERSEE_CONVERSATIONS: Final = Passage("task.oversee_conversations", "manage:conversations")
OVERSEE_ACTIONS: Final = Passage("task.oversee_actions", "manage:tasks")

Action = Passage | AnyOperation
Permits = Callable[[Caller, Action], bool]
IsRevoked = Callable[[Caller], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Visible:
    """Which tasks a list shows: those of `owner` (None: of everyone), and with `actions` every delegated action."""

    owner: str | None = None
    actions: bool = False


class TaskAccess:
    """Decides for a caller and a task."""

    def __init__(
        self,
        permits: Permits,
        *,
        is_revoked: IsRevoked,
        find_operation: Callable[[str], AnyOperation | None],
        security: SecurityEvents,
    ) -> None:
        self._permits = permits
        self._is_revoked = is_revoked
        self._find_operation = find_operation
        self._security = security

    def check(self, caller: Caller, task: Task, ref: str) -> None:
        """Refuse a caller that may not see, answer, cancel, retry, follow or subscribe to the task.

        Raises:
            TaskNotFound: it belongs to another subject, or holds the output of a tool that the caller may not run.
        """
        if not self._sees(caller, task):
            reason = "the task belongs to another subject"
        elif not self._may_read_output(caller, task):
            reason = "the task holds the output of a tool that the caller may not run"
        else:
            return
        self._security.denied(permission=_overseer(task).permission, reason=reason, resource=f"task/{task.id}")
        raise TaskNotFound(ref)

    async def check_run(self, caller: Caller, action: Action, task: Task) -> None:
        """Refuse to run a task for a caller that would not be let in now.

        Raises:
            CallerRefused: its credential, user or tenant is no longer valid, or it lacks the permission.
            UpstreamUnavailable: that cannot be found out now.
        """
        if await self._is_revoked(caller):
            reason = "the credentials that sent it are no longer valid"
            error = CallerRefused(f"not run: {reason}", reason="CREDENTIALS_REVOKED")
        elif not self._permits(caller, action):
            reason = f"its sender no longer has the permission {action.permission}"
            error = CallerRefused(f"not run: {reason}", reason="PERMISSION_LOST", permission=action.permission)
        else:
            return
        self._security.denied(permission=action.permission, reason=reason, resource=f"task/{task.id}", caller=caller)
        raise error

    def check_action(self, caller: Caller, action: str, permissions: Sequence[str]) -> None:
        """Refuse a caller that may send tasks, and may not do by a task what this action does.

        Raises:
            Forbidden: it lacks one of the permissions.
        """
        for permission in permissions:
            if not self._permits(caller, _part_of(action, permission)):
                raise Forbidden(f"{action} needs the permission {permission}", permission=permission)

    async def check_perform(self, caller: Caller, action: str, permissions: Sequence[str], task: Task) -> None:
        """Refuse to perform an action for a caller that would not be let in now, or may not do what it does.

        Raises:
            CallerRefused: as for `check_run`.
            UpstreamUnavailable: that cannot be found out now.
        """
        for permission in permissions:
            await self.check_run(caller, _part_of(action, permission), task)

    def action_of(self, call: ToolCall | None) -> Action:
        """Return what a message asks for: the operation that it names, else to send messages."""
        return self._find(call) or SEND_MESSAGE

    def check_steering(self, caller: Caller) -> None:
        """Refuse a caller that may not write a task's state, its result or the outcome of its effects by hand.

        Raises:
            Forbidden: it lacks the permission `manage:tasks`.
        """
        if not self._permits(caller, OVERSEE_ACTIONS):
            raise Forbidden(
                "moving a task by hand and settling its effects need the permission manage:tasks: ask an operator",
                permission=OVERSEE_ACTIONS.permission,
            )

    def visible(self, caller: Caller) -> Visible:
        """Return which tasks a list shows to the caller."""
        if self._permits(caller, OVERSEE_CONVERSATIONS):
            return Visible()
        return Visible(caller.subject, actions=self._permits(caller, OVERSEE_ACTIONS))

    def shown(self, caller: Caller, task: Task) -> Task:
        """Return a task of a list as the caller may see it: without content that it may not read."""
        if self._may_read_output(caller, task):
            return task
        metadata = {**task.metadata, "withheld": True}
        return replace(task, message=None, history=[], artifacts=[], slot=None, metadata=metadata)

    def _sees(self, caller: Caller, task: Task) -> bool:
        if task.owner == caller.subject:
            return True
        return self._permits(caller, _overseer(task))

    def _may_read_output(self, caller: Caller, task: Task) -> bool:
        # The credential that ran the tool may read what it returned; this is nearly every request.
        if task.delegated or task.caller.get("credential") == caller.credential or not task.history:
            return True
        operation = self._find(find_tool_call(task.history[0]))
        return operation is None or self._permits(caller, operation)

    def _find(self, call: ToolCall | None) -> AnyOperation | None:
        return self._find_operation(call.name) if call is not None and call.name is not None else None


def _overseer(task: Task) -> Passage:
    return OVERSEE_ACTIONS if task.delegated else OVERSEE_CONVERSATIONS


def _part_of(action: str, permission: str) -> Passage:
    """Return what a worker does for a sender. Answers are kept by the name, so that each permission has its own."""
    return Passage(f"{action}/{permission}", permission)
