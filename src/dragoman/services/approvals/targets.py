"""What an approval is bound to: the action with an input that it takes, on a resource as it is now."""

from dataclasses import dataclass, replace
from typing import Any

from dragoman.context import Caller, Role
from dragoman.errors import InvalidInput, NotFound
from dragoman.services.approvals.records import Record
from dragoman.services.tasks.actions.envelope import Resource
from dragoman.services.tasks.actions.errors import ResourceMoved
from dragoman.services.tasks.actions.ports import Registry, Resources, Target
from dragoman.services.tasks.actions.results import read_input
from dragoman.services.workers.protocol import Capability


@dataclass(frozen=True, slots=True)
class BoundTarget:
    """An action on a resource of which version, hash and further facts are known."""

    sensitive: bool
    resource: Resource
    facts: dict[str, Any]
    approvers: frozenset[Role] | None = None


class Targets:
    """Asks the registry of workers and the resources, which come later than approvals do."""

    def __init__(self) -> None:
        self._registry: Registry | None = None
        self._resources: Resources | None = None

    def join(self, registry: Registry, resources: Resources) -> None:
        """Use these from now on."""
        self._registry, self._resources = registry, resources

    async def bind(self, caller: Caller, action: str, resource: Resource, given: dict[str, Any]) -> BoundTarget:
        """Return what consent to the action would be bound to; an action without a worker counts as sensitive.

        Raises:
            InvalidInput: the input is not what the action takes.
            ResourceMoved: the resource differs from what is named of it.
            DragomanError: it does not exist, or does not take the action.
        """
        capability = await self._capability(caller, action)
        sensitive = capability is None or capability.is_sensitive(given)
        if capability is not None:
            read_input(capability, given)
        bound = await self.bind_resource(caller, Target(action, resource, given, sensitive))
        return replace(bound, approvers=capability.approvers_for(given) if capability is not None else None)

    async def bind_resource(self, caller: Caller, target: Target) -> BoundTarget:
        """Return the resource of a target as it is now.

        Raises:
            DragomanError: it differs from what is named of it, does not exist, or does not take the action.
        """
        if self._resources is None:
            return BoundTarget(target.sensitive, target.resource, {})
        bound = await self._resources.bind(caller, target)
        return BoundTarget(target.sensitive, bound.of(target.resource), bound.facts)

    async def find_move(self, caller: Caller, row: Record) -> str | None:
        """Return how the resource of an approval has moved since it was asked for; None where it has not."""
        resource = Resource.model_validate(row["resource"])
        target = Target(row["action"], resource, row["input"], sensitive=True)
        try:
            if (await self.bind_resource(caller, target)).facts == row["facts"]:
                return None
        except (ResourceMoved, NotFound) as moved:
            return f"{resource.type} {resource.id}: {moved.message}"
        return f"{resource.type} {resource.id} has changed"

    async def show(self, caller: Caller, row: Record, *, since: str | None) -> dict[str, Any]:
        """Return what a decider must see of the resource of an approval, as it was bound."""
        if self._resources is None:
            return {}
        target = Target(row["action"], Resource.model_validate(row["resource"]), row["input"], sensitive=False)
        try:
            return await self._resources.show(caller, target, since=since)
        except NotFound as gone:
            return {"missing": gone.message}

    async def find_fields(self, caller: Caller, action: str) -> frozenset[str] | None:
        """Return the names of the input fields of an action; None where they are not known."""
        capability = await self._capability(caller, action)
        if capability is None or capability.input.model_config.get("extra") == "allow":
            return None
        return frozenset(field.alias or name for name, field in capability.input.model_fields.items())

    async def complete_input(self, caller: Caller, action: str, given: dict[str, Any]) -> dict[str, Any]:
        """Return an input as the worker of the action will read it; as it was given where there is none."""
        capability = await self._capability(caller, action)
        return complete_input(capability, given) if capability is not None else given

    async def _capability(self, caller: Caller, action: str) -> Capability | None:
        route = await self._registry.find(caller, action) if self._registry is not None else None
        return route.capability if route is not None else None


def complete_input(capability: Capability, given: dict[str, Any]) -> dict[str, Any]:
    """Return an input with the defaults of what it leaves out; one that the action does not take, as it was given."""
    try:
        return read_input(capability, given).model_dump(mode="json", by_alias=True, exclude_none=True)
    except InvalidInput:
        return given
