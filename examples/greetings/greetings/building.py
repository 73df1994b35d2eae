"""What the plugin contributes to a server: two handlers, a worker, and a check in `/health`."""

from collections.abc import Sequence
from typing import cast

from dragoman.context import Caller
from dragoman.infra.db import scope_of
from dragoman.infra.ids import new_id
from dragoman.operations import ListInput, Page, page
from dragoman.plugin import Platform, Publish, Vertical
from dragoman.services.workers.protocol import Assignment, Capability, Performed
from greetings import operations as o
from greetings.settings import GreetingSettings
from greetings.store import GreetingStore


class Greetings:
    """Greets for a tenant."""

    name = "greetings"
    capabilities: Sequence[Capability] = (
        Capability("greeting.deliver", "Deliver a greeting", o.SayGreeting, required=False),
    )

    def __init__(self, store: GreetingStore, word: str, publish: Publish) -> None:
        self._store = store
        self._word = word
        self._publish = publish

    async def say(self, caller: Caller, request: o.SayGreeting) -> o.Greeting:
        """Greet somebody and tell subscribers of it, in the transaction of the gate."""
        greeting = o.Greeting(id=new_id(), name=request.name, words=f"{self._word}, {request.name}!")
        await self._store.add(scope_of(caller), greeting.id, greeting.name, greeting.words)
        data = {"greeting_id": greeting.id}
        await self._publish(caller.tenant, "greeting.said", subject=str(greeting.id), data=data)
        return greeting

    async def list(self, caller: Caller, request: ListInput) -> Page[o.Greeting]:
        """Return greetings, newest first."""
        rows = await self._store.list_page(scope_of(caller), request.limit + 1, request.cursor)
        return page([o.Greeting.model_validate(row) for row in rows], request.limit)

    async def perform(self, assignment: Assignment) -> Performed:
        """Deliver a greeting that was handed over as an envelope."""
        request = cast("o.SayGreeting", assignment.input)
        return Performed({"delivered": f"{self._word}, {request.name}!"})

    async def check(self) -> str:
        """Say that the plugin is there."""
        return f"greets with {self._word}"


def build(platform: Platform) -> Vertical:
    """Bind the handlers; return the rest."""
    greetings = Greetings(GreetingStore(platform.db), platform.section(GreetingSettings).word, platform.publish)
    platform.handlers.add(o.SAY, greetings.say)
    platform.handlers.add(o.LIST, greetings.list)
    return Vertical(workers=(greetings,), checks={"greetings": greetings.check})
