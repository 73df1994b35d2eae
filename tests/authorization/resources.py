"""What operations act on, made for its owner: kept for those that only read it, made anew for those that change it."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from random import choices, randrange
from string import ascii_uppercase
from typing import Any, Final
from uuid import uuid4

from tests.authorization.certificates import client_certificate
from tests.authorization.people import PDF, Actor, People

Json = dict[str, Any]
# Never reached: the tasks that it would be told of wait.
WEBHOOK: Final = {"id": "hook", "url": "http://127.0.0.1:9/hook"}
DEED: Final = {"type": "deed", "id": "nda-1"}


class Resources:
    """Makes resources through REST, as their owners would."""

    def __init__(self, people: People) -> None:
        self._people = people
        self._kept: dict[tuple[str, str], asyncio.Task[str]] = {}
        self._make: dict[str, Callable[[Actor], Awaitable[str]]] = {
            "memory": self._memory,
            "session": self._session_memory,
            "knowledge": self._knowledge,
            "accepted": self._accepted,
            "connection": self._connection,
            "document": self._document,
            "pdf": self._pdf,
            "checklist": self._checklist,
            "suppression": self._suppression,
            "worker": self._worker,
            "approval": self._approval,
            "task": self._task,
            "signature": self._signature,
            "linked": self._linked,
            "grant": self._grant,
            "user": self._user,
            "key": self._key,
            "a2a_agent": self._a2a_agent,
            "cost_rate": self._cost_rate,
            "webhook_source": self._webhook_source,
            "webhook_event": self._webhook_event,
            "subscription": self._subscription,
            "delivery": self._delivery,
            "budget": self._budget,
            "budget_alert": self._budget_alert,
            "anomaly": self._people.anomaly,
            "recommendation": self._people.recommendation,
            "tenant": self._tenant,
            "cloud_account": self._cloud_account,
            "cost_upload": self._cost_upload,
            "cost_import": self._cost_import,
            "conversation": self._conversation,
            "push": self._push,
        }

    async def keep(self, kind: str, owner: Actor) -> str:
        """Return one that is made once for its owner."""
        if (kind, owner.subject) not in self._kept:
            self._kept[kind, owner.subject] = asyncio.ensure_future(self.make(kind, owner))
        return await self._kept[kind, owner.subject]

    async def make(self, kind: str, owner: Actor) -> str:
        """Return a new one."""
        return await self._make[kind](owner)

    def missing(self, kind: str) -> str:
        """Return a name of the same form that names nothing."""
        return {"worker": f"a2a:{uuid4().hex}", "tenant": f"t{uuid4().hex[:12]}"}.get(kind, str(uuid4()))

    async def _do(self, owner: Actor, method: str, path: str, body: Json | None = None) -> Any:
        return await self._people.do(method, path, owner.maker, body)

    async def _memory(self, owner: Actor) -> str:
        given = {"content": f"The code is {uuid4().hex}.", "layer": "user"}
        return (await self._do(owner, "POST", "/api/memories", given))["memory_id"]

    async def _session_memory(self, owner: Actor) -> str:
        """A memory of a conversation, which may be promoted to a project."""
        given = {"content": f"The code is {uuid4().hex}.", "layer": "session", "ids": {"session_id": "s-1"}}
        return (await self._do(owner, "POST", "/api/memories", given))["memory_id"]

    async def _knowledge(self, owner: Actor) -> str:
        given = {"type": "adr", "title": f"Item {uuid4().hex}", "content": "One database."}
        return (await self._do(owner, "POST", "/api/knowledge/propose", given))["id"]

    async def _accepted(self, owner: Actor) -> str:
        item = await self._knowledge(owner)
        await self._do(owner, "POST", f"/api/knowledge/{item}/accept", {})
        return item

    async def _connection(self, owner: Actor) -> str:
        given = {"remote": f"https://git.example.com/{uuid4().hex}.git", "token": "glpat-1234"}
        return (await self._do(owner, "POST", "/api/knowledge-remotes", given))["id"]

    async def _document(self, owner: Actor) -> str:
        given = {"title": "Terms", "media_type": "text/markdown", "content": base64.b64encode(b"# Terms\n").decode()}
        return (await self._do(owner, "POST", "/api/documents", given))["id"]

    async def _pdf(self, owner: Actor) -> str:
        given = {"title": "NDA", "media_type": "application/pdf", "content": PDF}
        return (await self._do(owner, "POST", "/api/documents", given))["id"]

    async def _checklist(self, owner: Actor) -> str:
        given = {"title": "Closing", "entries": {"nda": {"title": "Mutual NDA", "stage": "PRE_SIGNING"}}}
        return (await self._do(owner, "POST", "/api/checklists", given))["id"]

    async def _suppression(self, owner: Actor) -> str:
        given = {
            "project": uuid4().hex,
            "policy_id": "policy-x",
            "reason": "later",
            "expires_at": "2027-01-31T00:00:00Z",
        }
        return (await self._do(owner, "POST", "/api/suppressions", given))["id"]

    async def _worker(self, owner: Actor) -> str:
        action = {"action": "count.stars", "summary": "Count.", "version": "1"}
        given = {"name": f"w{uuid4().hex[:12]}", "kind": "a2a", "url": "https://agent.example.com", "actions": [action]}
        await self._do(owner, "POST", "/api/workers", given)
        return f"a2a:{given['name']}"

    async def _approval(self, owner: Actor) -> str:
        given = {"action": "signature.witness", "resource": DEED, "matter_id": uuid4().hex, "input": {}}
        return (await self._do(owner, "POST", "/api/approvals", given))["approval_id"]

    async def _task(self, owner: Actor) -> str:
        """A rehearsal: a whole delegated task that ends at once."""
        resource = {"type": "document", "id": await self.keep("document", owner)}
        given = self.envelope(owner, "document.redline", resource, {"edits": [{"find": "Terms", "replace": "Rules"}]})
        given["request"] = {"dry_run": True}
        return (await self._do(owner, "POST", "/api/tasks", given))["task_id"]

    async def _signature(self, owner: Actor) -> str:
        """A draft of a request that names its owner as the one who signs."""
        email = owner.subject if "@" in owner.subject else f"{owner.subject}@example.com"
        resource = {"type": "document", "id": await self.keep("pdf", owner)}
        given = self.envelope(owner, "signature.prepare", resource, {"signers": [{"name": "Owner", "email": email}]})
        part = {"data": {"tool": "task_submit", "arguments": {"envelope": given}}}
        # A2A answers when the task rests.
        task = await self._send(owner, part)
        view = await self._do(owner, "GET", f"/api/tasks/{task['id']}")
        return view["result"]["signature_id"]

    async def _linked(self, owner: Actor) -> str:
        """A draft of a request that asks somebody without an account."""
        return await self._people.outsiders(owner.subject, owner.maker, await self.keep("pdf", owner))

    def envelope(self, owner: Actor, action: str, resource: Json, given: Json) -> Json:
        """Return an envelope in the owner's name."""
        kind = {"agent": "agent"}.get(owner.name, "service" if owner.name.startswith("key") else "human")
        return {
            "envelope_version": "1",
            "actor": {"id": owner.subject, "type": kind},
            "action": action,
            "resource": resource,
            "matter": {"id": uuid4().hex},
            "idempotency_key": uuid4().hex,
            "input": given,
        }

    async def _grant(self, owner: Actor) -> str:
        given = {"agent": f"key:{uuid4().hex}", "actions": ["document.*"], "reason": "drafts my contracts"}
        return (await self._do(owner, "POST", "/api/grants", given))["grant_id"]

    async def _user(self, owner: Actor) -> str:
        name = uuid4().hex
        given = {"email": f"{name}@example.com", "name": "Ada", "role": "viewer"}
        return (await self._do(owner, "POST", "/api/users", given))["id"]

    async def _a2a_agent(self, owner: Actor) -> str:
        given = {"name": uuid4().hex, "certificate": client_certificate()}
        return (await self._do(owner, "POST", "/api/a2a-agents", given))["id"]

    async def _cloud_account(self, owner: Actor) -> str:
        given = {"provider": "kubernetes", "identifier": f"c{uuid4().hex}", "name": "Cluster"}
        return (await self._do(owner, "POST", "/api/cloud-accounts", given))["id"]

    async def _cost_upload(self, owner: Actor) -> str:
        """An upload of two parts, of which one at most arrives."""
        given = {"file_name": "focus.csv", "size_bytes": 4_194_308, "sha256": "0" * 64}
        return (await self._do(owner, "POST", "/api/cost-uploads", given))["id"]

    async def _cost_import(self, owner: Actor) -> str:
        """An import from an address that leads nowhere: a host of its own, whose breaker no other import opens."""
        place = f"/api/cloud-accounts/{await self.keep('cloud_account', owner)}/import"
        url = f"https://{uuid4().hex}.example.com/focus.csv"
        return (await self._do(owner, "POST", place, {"url": url}))["import_id"]

    async def _webhook_source(self, owner: Actor) -> str:
        given = {"name": uuid4().hex, "provider": "k8s"}
        return (await self._do(owner, "POST", "/api/webhook-sources", given))["id"]

    async def _webhook_event(self, owner: Actor) -> str:
        """An event that has ended, so that it may be replayed."""
        given = {"name": uuid4().hex, "provider": "azure"}
        source = await self._do(owner, "POST", "/api/webhook-sources", given)
        body, headers = {"id": uuid4().hex}, {"x-webhook-key": source["secret"]}
        event_id = (await self._people.send(source["path"], body, headers))["id"]
        path = f"/api/webhook-events/{event_id}"
        while (await self._do(owner, "GET", path))["state"] == "received":
            pass
        return event_id

    async def _subscription(self, owner: Actor) -> str:
        given = {"url": WEBHOOK["url"], "events": ["task.*"]}
        return (await self._do(owner, "POST", "/api/subscriptions", given))["id"]

    async def _delivery(self, owner: Actor) -> str:
        """A test of a subscription, which nobody listens to."""
        subscription = await self.keep("subscription", owner)
        return (await self._do(owner, "POST", f"/api/subscriptions/{subscription}/test"))["id"]

    async def _key(self, owner: Actor) -> str:
        return (await self._people.key(owner.maker, role="viewer"))["id"]

    async def _cost_rate(self, owner: Actor) -> str:
        code = "".join(choices(ascii_uppercase, k=3))
        rate = {"from_currency": code, "to_currency": "EUR", "period": f"{randrange(2000, 2100)}-01", "rate": "2"}
        return (await self._do(owner, "POST", "/api/cost-rates", {"rates": [rate]}))["rates"][0]["id"]

    async def _budget(self, owner: Actor) -> str:
        return (await self._do(owner, "POST", "/api/budgets", {"name": "All", "amount": "5", "currency": "USD"}))["id"]

    async def _budget_alert(self, owner: Actor) -> str:
        return await self._people.alerted(owner.tenant, await self._budget(owner))

    async def _tenant(self, owner: Actor) -> str:
        """The owner's own; a stranger's is a new one, because it may be suspended or deleted."""
        if owner.tenant == self._people.tenant:
            return owner.tenant
        slug = f"t{uuid4().hex[:12]}"
        await self._people.do("POST", "/api/tenant", self._people.root, {"name": slug, "slug": slug})
        return slug

    async def _conversation(self, owner: Actor) -> str:
        """A conversation of A2A that waits for an answer."""
        return (await self._send(owner, {"text": "tck-input-required"}))["id"]

    async def _send(self, owner: Actor, part: Json) -> Json:
        message = {"role": "ROLE_USER", "messageId": uuid4().hex, "parts": [part]}
        return (await self._people.ask(owner.maker, "SendMessage", {"message": message}))["task"]

    async def _push(self, owner: Actor) -> str:
        """A conversation with a webhook, `hook`."""
        task = await self._conversation(owner)
        await self._people.ask(owner.maker, "CreateTaskPushNotificationConfig", {"taskId": task, **WEBHOOK})
        return task
