"""Which actions are sensitive: as the worker that performs them declares."""

from dragoman.context import Caller
from dragoman.services.tasks.actions.ports import Registry


class Sensitivity:
    """Asks the registry of workers, which comes later than approvals do."""

    def __init__(self) -> None:
        self.registry: Registry | None = None

    async def __call__(self, caller: Caller, action: str) -> bool:
        """Whether it is; an action that nobody performs is."""
        route = await self.registry.find(caller, action) if self.registry is not None else None
        return route is None or route.capability.sensitive
