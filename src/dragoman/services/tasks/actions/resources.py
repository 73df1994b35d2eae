"""The resources that actions change: each vertical says what the current version and content of its own is."""

from collections.abc import Sequence

from dragoman.context import Caller
from dragoman.services.tasks.actions.ports import Bound, ResourceCheck, Target
from dragoman.services.tasks.events import Json


class CheckedResources:
    """Asks every check that covers a target. A resource that no check covers is bound to what its caller says of it."""

    def __init__(self, checks: Sequence[ResourceCheck]) -> None:
        self._checks = checks

    async def bind(self, caller: Caller, target: Target) -> Bound:
        """Return the resource as it is now.

        Raises:
            ResourceMoved: its version or its content differs from what the target names.
            DragomanError: it does not exist, or does not take the action.
        """
        bound = Bound()
        for check in self._checks:
            if check.covers(target):
                found = await check.bind(caller, target)
                bound = Bound(
                    bound.version or found.version, bound.sha256 or found.sha256, {**bound.facts, **found.facts}
                )
        return bound

    async def show(self, caller: Caller, target: Target, *, since: str | None) -> Json:
        """Return what a person must see of the bound resource."""
        shown: Json = {}
        for check in self._checks:
            if check.covers(target):
                shown |= await check.show(caller, target, since=since)
        return shown
