"""From answers to the words of the table: how far a caller reaches with an operation."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from uuid import uuid4

from dragoman.operations import AnyOperation
from dragoman.parity.doors import binding_of
from tests.authorization.certificates import client_certificate
from tests.authorization.doors import A2a, Answer, Door, send
from tests.authorization.people import Actor, People
from tests.authorization.resources import DEED, WEBHOOK, Resources
from tests.authorization.table import Line

Json = dict[str, Any]
Ask = Callable[[str], Awaitable[Answer]]
DENIED: Final = "UNAUTHORIZED"
# A message that names a tool which everybody may use.
HARMLESS: Final = {"data": {"tool": "identity_show", "arguments": {}}}
REQUEST: Final = {"action": "signature.witness", "input": {}}
# How far a caller reaches whose farthest resource is this.
_WORDS: Final = {"own": "own", "others": "tenant", "foreign": "all"}
# Where the example of an operation would be refused the second time, or would leave this machine.
ARGUMENTS: Final[Mapping[str, Json]] = {
    "tenant.create": {"name": "Acme", "slug": "t{fresh}"},
    "user.invite": {"email": "{fresh}@example.com", "name": "Ada", "role": "viewer"},
    "token.revoke": {"token_id": "{fresh}"},
    "key.create": {"name": "{fresh}", "role": "agent"},
    "a2a_agent.register": {"name": "{fresh}", "certificate": "{certificate}"},
    "a2a_agent.update": {"per_min": 60},
    "cloud_account.create": {"provider": "kubernetes", "identifier": "c{fresh}", "name": "Cluster"},
    "cloud_account.import": {"path": "nothing.csv"},
    "costs.begin_upload": {"file_name": "focus.csv", "size_bytes": 4, "sha256": "0" * 64},
    "costs.add_upload_part": {"number": 2, "content": "QmlsbA=="},
    "subscription.create": {"url": WEBHOOK["url"], "events": ["task.*"]},
    "delivery.list": {},
    "worker.register": {
        "name": "w{fresh}",
        "kind": "a2a",
        "url": "https://agent.example.com",
        "actions": [{"action": "count.stars", "summary": "Count.", "version": "1"}],
    },
    "capability.allow": {"action": "count.stars"},
    "capability.deny": {"action": "count.stars"},
    "memory.update": {"content": "The code is {fresh}."},
    "governance.suppress": {
        "project": "{fresh}",
        "policy_id": "policy-x",
        "reason": "later",
        "expires_at": "2027-01-31T00:00:00Z",
    },
    "knowledge.propose": {"type": "adr", "title": "Item {fresh}", "content": "One database."},
    "knowledge.sync": {"remote": "ssh://git@127.0.0.1/nothing.git", "branch": "main"},
    "knowledge.connect": {"remote": "https://git.example.com/one.git", "token": "glpat-1234"},
    "approval.request": {"action": "signature.witness", "resource": DEED, "matter_id": "{fresh}", "input": {}},
    "grant.create": {"agent": "key:{fresh}", "actions": ["document.*"], "reason": "drafts my contracts"},
    "webhook_event.list": {},
    "costs.demo": {"remove": True},
    "recommendation.configure": {"rule": "rightsize"},
    "task.retry_many": {"matter": "{fresh}"},
    "task.cancel_many": {"matter": "{fresh}"},
}


# The methods of A2A that are no operations, by the passage that guards each and what it is asked about.
PASSAGES: Final[Mapping[str, tuple[str, Callable[[str], Json]]]] = {
    "message.send new": ("SendMessage", lambda _: send({"text": "tck-complete-task"})),
    "message.send answer": ("SendMessage", lambda ref: send({"text": "done"}, taskId=ref)),
    "message.send tool-and-task": ("SendMessage", lambda ref: send(HARMLESS, taskId=ref)),
    "task.get conversation": ("GetTask", lambda ref: {"id": ref}),
    "task.get action": ("GetTask", lambda ref: {"id": ref}),
    "task.get card": ("GetExtendedAgentCard", lambda _: {}),
    "task.list conversations": ("ListTasks", lambda _: {"pageSize": 100}),
    "task.follow conversation": ("SubscribeToTask", lambda ref: {"id": ref}),
    "task.cancel conversation": ("CancelTask", lambda ref: {"id": ref}),
    "push.create conversation": ("CreateTaskPushNotificationConfig", lambda ref: {"taskId": ref, **WEBHOOK}),
    "push.get conversation": ("GetTaskPushNotificationConfig", lambda ref: {"taskId": ref, "id": WEBHOOK["id"]}),
    "push.list conversation": ("ListTaskPushNotificationConfigs", lambda ref: {"taskId": ref}),
    "push.delete conversation": ("DeleteTaskPushNotificationConfig", lambda ref: {"taskId": ref, "id": WEBHOOK["id"]}),
}
# Whatever these are asked about has ended afterwards.
ENDING: Final = (
    "message.send answer",
    "message.send tool-and-task",
    "task.cancel conversation",
    "push.delete conversation",
)
# Lists that soon hold more than a page: only what is new stands on the first.
LONG: Final = frozenset(("audit.list", "task.list", "task.list conversations"))


class Questions:
    """Asks everything that a cell of the table is about, and says it in the table's words."""

    def __init__(self, people: People, resources: Resources) -> None:
        self._people = people
        self._resources = resources

    async def cell(self, door: Door, actor: Actor, line: Line) -> str:
        """Return how far the actor reaches with an operation by this door."""
        operation = binding_of(line.name.replace(".", "_")).operation

        async def ask(ref: str) -> Answer:
            given = await self._arguments(line, actor, operation)
            if ref and line.field != "list":
                given[line.field] = ref
            return await door.call(actor.credential, line.name, given)

        # What the state of a resource forbids leaves it as it is.
        return await self.reach(line, actor, ask, changes=operation.writes and not line.answer)

    async def refused(self, door: Door, actor: Actor, line: Line) -> str:
        """Return what an actor is told who should be refused whatever it names, by one question."""
        operation = binding_of(line.name.replace(".", "_")).operation
        given = await self._arguments(line, actor, operation)
        if line.kind and line.field != "list":
            given[line.field] = self._resources.missing(line.kind)
        answer = await door.call(actor.credential, line.name, given)
        return "-" if answer.code == DENIED else answer.code or "ok"

    async def _arguments(self, line: Line, actor: Actor, operation: AnyOperation) -> Json:
        if line.name == "task.submit":
            # An envelope is in the name of its sender; nobody but the sender may hand it over. This action needs no
            # permission beside that of the operation.
            resource = {"type": "document", "id": await self._resources.keep("document", self._people.colleague)}
            envelope = self._resources.envelope(actor, "approval.request", resource, REQUEST)
            return {"envelope": {**envelope, "request": {"dry_run": True}}}
        given = _filled(ARGUMENTS.get(line.name, operation.example))
        if line.name == "knowledge.supersede":
            given["by"] = await self._resources.keep("accepted", self._people.colleague)
        if line.field == "list" and "limit" in operation.input.model_fields:
            given["limit"] = 100 if line.kind == "accepted" else 200
        return given

    async def passage(self, door: A2a, actor: Actor, line: Line) -> str:
        """Return how far the actor reaches with a method of A2A."""
        method, params = PASSAGES[line.name]

        async def ask(ref: str) -> Answer:
            return await door.ask(actor.credential, method, params(ref))

        return await self.reach(line, actor, ask, changes=line.name in ENDING)

    async def reach(self, line: Line, actor: Actor, ask: Ask, *, changes: bool = False) -> str:
        """Return the word for what was answered."""
        if not line.kind:
            return _word({"own": _outcome(line, await ask(""))}, alone="yes")
        if line.field == "list":
            return await self._listed(line, actor, ask)
        refs = {"missing": self._resources.missing(line.kind)}
        answers = {"missing": await ask(refs["missing"])}
        # One who is refused something that does not exist changes nothing: what others need can be asked about.
        denied = _outcome(line, answers["missing"]) == "denied"
        find = self._resources.make if changes and not denied else self._resources.keep
        refs |= await self._refs(line.kind, actor, find)
        asked = [which for which in refs if which != "missing"]
        answers |= dict(zip(asked, await asyncio.gather(*(ask(refs[which]) for which in asked)), strict=True))
        said = {which: answer.message.replace(refs[which], "<id>") for which, answer in answers.items()}
        outcomes = {which: _outcome(line, answers[which]) for which in (*asked, "missing")}
        for which, outcome in outcomes.items():
            same = outcome != outcomes["missing"] or said[which] == said["missing"]
            assert same, f"{line.name}: {which} is told from a missing one: {said[which]!r}, {said['missing']!r}"
        return _word(outcomes)

    async def _listed(self, line: Line, actor: Actor, ask: Ask) -> str:
        refs = await self._refs(line.kind, actor, self._resources.make if line.name in LONG else self._resources.keep)
        answer = await ask("")
        outcome = _outcome(line, answer)
        if outcome != "ok":
            return _word({"own": outcome})
        return _word({which: "ok" if ref in answer.text else "missing" for which, ref in refs.items()})

    async def _refs(self, kind: str, actor: Actor, find: Callable[[str, Actor], Awaitable[str]]) -> dict[str, str]:
        owners = {"own": actor, "others": self._people.colleague, "foreign": self._people.stranger}
        if kind == "tenant":
            del owners["others"]
        made = await asyncio.gather(*(find(kind, owner) for owner in owners.values()))
        return dict(zip(owners, made, strict=True))


def _outcome(line: Line, answer: Answer) -> str:
    if answer.code in ("", line.answer):
        return "ok"
    return {DENIED: "denied", "NOT_FOUND": "missing"}.get(answer.code, answer.code)


def _word(outcomes: Mapping[str, str], *, alone: str = "") -> str:
    """Return the word of the table for these outcomes; whatever the word does not say is told after it."""
    reached = [which for which in _WORDS if outcomes.get(which) == "ok"]
    if not reached:
        kinds = set(outcomes.values())
        plain = {frozenset({"denied"}): "-", frozenset({"missing"}): "none", frozenset({"denied", "missing"}): "-*"}
        if frozenset(kinds) in plain:
            return plain[frozenset(kinds)]
    word = alone or _WORDS[reached[-1]] if reached else "-"
    if reached == ["own"] and "others" not in outcomes and not alone:
        word = "tenant"
    expected = {which: "ok" if which in reached else "missing" for which in outcomes}
    below = list(_WORDS)[: list(_WORDS).index(reached[-1])] if reached else []
    expected |= {which: "ok" for which in below if which in outcomes}
    odd = [f"{which}:{outcome}" for which, outcome in outcomes.items() if outcome != expected[which]]
    return ",".join([word, *odd])


def _filled(example: Mapping[str, Any]) -> Json:
    fresh = uuid4().hex[:12]
    return {name: _filled_text(value, fresh) if isinstance(value, str) else value for name, value in example.items()}


def _filled_text(text: str, fresh: str) -> str:
    return client_certificate() if text == "{certificate}" else text.replace("{fresh}", fresh)
