"""Those who ask: one person for each role, keys, an invitation, a link, and credentials that must not be taken."""

import asyncio
import base64
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID, uuid4

import httpx
import typst

from dragoman.infra.auth.tokens import Grant
from dragoman.infra.ids import new_id
from tests.backstage import sql
from tests.harness import Server

Json = dict[str, Any]
# A permission that no operation has: a key with this scope alone may do nothing at all.
ELSEWHERE: Final = "read:resources"
# Nobody's account.
OUTSIDER: Final = "jane@example.org"
PDF: Final = base64.b64encode(typst.compile(b"= NDA")).decode()


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody with a credential; `maker` is a token of the same subject that may make what belongs to it."""

    name: str
    tenant: str
    subject: str
    credential: str = field(repr=False)
    maker: str = field(repr=False)


class People:
    """Makes actors in a tenant of their own, and strangers in another."""

    def __init__(self, server: Server, http: httpx.AsyncClient) -> None:
        self._server = server
        self._issuer = server.issuer()
        self._http = http
        self.tenant, self.elsewhere = f"t{uuid4().hex[:12]}", f"t{uuid4().hex[:12]}"
        self._keys: dict[str, asyncio.Task[Actor]] = {}

    async def settle(self) -> None:
        """Make the tenants."""
        for slug in (self.tenant, self.elsewhere):
            await self.do("POST", "/api/tenant", self.root, {"name": slug, "slug": slug})

    @property
    def root(self) -> str:
        """A token for what only the platform can arrange."""
        return self.token("root", "super_admin", "demo")

    def token(self, subject: str, role: str, tenant: str, **options: Any) -> str:
        """Return a token; a program's where the role is `agent`."""
        kind = "agent" if role == "agent" else "user"
        return self._issuer.mint(Grant(tenant, subject, [role], type=kind), **options)

    def actor(self, name: str, subject: str, credential: str, *, tenant: str = "") -> Actor:
        """Return somebody of our tenant."""
        place = tenant or self.tenant
        return Actor(name, place, subject, credential, self.token(subject, "org_admin", place))

    def person(self, role: str) -> Actor:
        """Return the one of this role."""
        subject = f"{role}@example.com"
        return self.actor(role, subject, self.token(subject, role, self.tenant))

    @property
    def colleague(self) -> Actor:
        """Another person of the same tenant."""
        return self.actor(
            "colleague", "colleague@example.com", self.token("colleague@example.com", "org_admin", self.tenant)
        )

    @property
    def stranger(self) -> Actor:
        """A person of another tenant."""
        token = self.token("stranger@example.com", "org_admin", self.elsewhere)
        return self.actor("stranger", "stranger@example.com", token, tenant=self.elsewhere)

    async def anomaly(self, owner: Actor) -> str:
        """Return an anomaly as an analysis would have found it, long before the bills that others import."""
        return await self._found(
            owner,
            """
        INSERT INTO cost_anomalies (tenant_id, id, account_id, provider, service, currency, day, last_day, shape,
            expected, actual, total_excess, score, title, causes, status)
        SELECT t.id, $2::uuid, $2::uuid, 'AWS', 'S3', 'USD', '2000-01-01', '2000-01-01', 'spike', 10, 30, 20, 9,
            'S3', '[]', 'open'
        FROM tenants t WHERE t.slug = $1""",
        )

    async def recommendation(self, owner: Actor) -> str:
        """Return a recommendation as an analysis would have found it, about an account without further bills."""
        return await self._found(
            owner,
            """
        WITH account AS (
            INSERT INTO cost_accounts (tenant_id, id, provider, identifier, name, status, credential_kind,
                credential_status, created_by)
            SELECT t.id, $2::uuid, 'kubernetes', ($2::uuid)::text, 'Test', 'active', 'none', 'missing', 'test'
            FROM tenants t WHERE t.slug = $1)
        INSERT INTO cost_recommendations (tenant_id, id, rule, key, type, account_id, provider, service, region,
            sub_account, resource_id, resource_name, title, description, currency, saving, confidence, risk,
            current_config, recommended_config, facts, evidence, status, content_sha256, version_saving, expires_at)
        SELECT t.id, $2::uuid, 'rightsize', ($2::uuid)::text, 'rightsize', $2::uuid, 'AWS', 'EBS', 'eu-west-1', 'a',
            'snap-1', 'old', 'Delete it', 'It is old', 'USD', 9, 'high', 'low', '{}', '{}', '{}',
            '{"first_day": "2026-11-01", "last_day": "2026-11-02", "days": 2, "rows": []}', 'pending', 'ab', 9,
            '2999-01-01'
        FROM tenants t WHERE t.slug = $1""",
        )

    async def _found(self, owner: Actor, statement: str) -> str:
        found = new_id()
        await asyncio.to_thread(sql, self._server, statement, owner.tenant, found)
        return str(found)

    async def limited(self, column: str, permission: str) -> Actor:
        """Return the holder of a limited credential, as the column says."""
        if column == "invitation":
            return await self._once("invitation", self.invited)
        if column == "link":
            return await self._once("link", self.linked)
        scope = permission if column == "scoped_key" else ELSEWHERE
        return await self._once(scope, lambda: self._keyed(scope))

    async def _once(self, name: str, make: Any) -> Actor:
        if name not in self._keys:
            self._keys[name] = asyncio.ensure_future(make())
        return await self._keys[name]

    async def _keyed(self, scope: str) -> Actor:
        subject = f"{scope.replace(':', '-')}@example.com"
        key = await self.key(self.token("keeper", "super_admin", self.tenant), subject=subject, scopes=[scope])
        return self.actor(f"key of {scope}", subject, key["secret"])

    async def invited(self) -> Actor:
        """Return somebody who was asked to come and has not accepted."""
        admin = self.token("keeper", "org_admin", self.tenant)
        person = {"email": f"{uuid4().hex}@example.com", "name": "Ada", "role": "org_admin"}
        user = await self.do("POST", "/api/users", admin, person)
        return self.actor("invitation", user["id"], user["invitation"])

    async def linked(self) -> Actor:
        """Return somebody without an account who was sent a link to sign."""
        admin = self.token("keeper", "org_admin", self.tenant)
        given = {"title": "NDA", "media_type": "application/pdf", "content": PDF}
        document = await self.do("POST", "/api/documents", admin, given)
        request = await self.outsiders("keeper", admin, document["id"])
        # As it is after `signature.send` with an approval, which takes a policy, two people and a task.
        await asyncio.to_thread(
            sql, self._server, "UPDATE signatures SET status = 'sent', governance = $2 WHERE id = $1", UUID(request),
            '{"approvals": [{"id": "a1", "decided_by": "boss"}]}',
        )  # fmt: skip
        link = await self.do("POST", "/api/links", admin, {"signature_id": request, "email": OUTSIDER})
        return self.actor("link", f"{link['id']}@example.com", link["secret"])

    async def alerted(self, tenant: str, budget: str) -> str:
        """Raise an alert of a budget, as spending more than it would; its id."""
        alert = new_id()
        await asyncio.to_thread(
            sql, self._server,
            "INSERT INTO cost_budget_alerts (tenant_id, id, budget_id, budget_name, period_start, period_end, kind, "
            "threshold, budgeted, reached, currency) "
            "SELECT id, $2, $3, 'All', '2026-01-01', '2026-01-31', 'actual', 100, 5, 6, 'USD' FROM tenants "
            "WHERE slug = $1",
            tenant, alert, UUID(budget),
        )  # fmt: skip
        return str(alert)

    async def outsiders(self, subject: str, maker: str, document: str) -> str:
        """Prepare a request that asks somebody without an account to sign; its id."""
        envelope = {
            "envelope_version": "1",
            "actor": {"id": subject, "type": "human"},
            "action": "signature.prepare",
            "resource": {"type": "document", "id": document},
            "matter": {"id": uuid4().hex},
            "idempotency_key": uuid4().hex,
            "input": {"signers": [{"name": "Jane", "email": OUTSIDER}]},
        }
        part = {"data": {"tool": "task_submit", "arguments": {"envelope": envelope}}}
        message = {"role": "ROLE_USER", "messageId": uuid4().hex, "parts": [part]}
        # A2A answers when the task rests.
        task = (await self.ask(maker, "SendMessage", {"message": message}))["task"]
        view = await self.do("GET", f"/api/tasks/{task['id']}", maker)
        return view["result"]["signature_id"]

    async def key(self, maker: str, **fields: Any) -> Json:
        """Make an API key."""
        return await self.do("POST", "/api/keys", maker, {"name": uuid4().hex, "role": "org_admin", **fields})

    async def refused(self) -> dict[str, str]:
        """Return credentials that were good once, or never, by what is wrong with them."""
        admin = self.token("keeper", "super_admin", self.tenant)
        revoked = self.token("revoked@example.com", "super_admin", self.tenant)
        await self.do("POST", "/api/tokens/revoke", admin, {"subject": "revoked@example.com"})
        key = await self.key(admin)
        await self.do("DELETE", f"/api/keys/{key['id']}", admin)
        people: Json = {}
        for what in ("disabled", "deleted"):
            subject = f"{what}@example.com"
            person = {"email": subject, "name": what, "subject": subject, "role": "org_admin"}
            user = await self.do("POST", "/api/users", admin, person)
            people[f"{what} user"] = self.token(subject, "super_admin", self.tenant)
            path = f"/api/users/{user['id']}"
            await (
                self.do("POST", f"{path}/disable", admin, {}) if what == "disabled" else self.do("DELETE", path, admin)
            )
        suspended = f"t{uuid4().hex[:12]}"
        await self.do("POST", "/api/tenant", self.root, {"name": suspended, "slug": suspended})
        of_tenant = await self.key(self.token("x", "org_admin", suspended))
        await self.do("POST", f"/api/tenant/{suspended}/suspend", self.root, {})
        return {
            "none": "",
            "nonsense": "nonsense",
            "expired token": self.token("x", "super_admin", self.tenant, ttl_s=-60),
            "revoked token": revoked,
            "revoked key": key["secret"],
            **people,
            "token of a suspended tenant": self.token("x", "super_admin", suspended),
            "key of a suspended tenant": of_tenant["secret"],
        }

    async def do(self, method: str, path: str, credential: str, body: Json | None = None) -> Any:
        """Arrange something that must succeed."""
        headers = {"authorization": f"Bearer {credential}"}
        answer = await self._http.request(method, path, json=body, headers=headers)
        assert answer.is_success, (method, path, answer.text)
        return answer.json()["data"]

    async def send(self, path: str, body: Json, headers: dict[str, str]) -> Any:
        """Send a webhook that must be taken."""
        answer = await self._http.post(path, json=body, headers=headers)
        assert answer.is_success, (path, answer.text)
        return answer.json()["data"]

    async def ask(self, credential: str, method: str, params: Json) -> Json:
        """Call a method of A2A that must succeed."""
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"authorization": f"Bearer {credential}", "A2A-Version": "1.0"}
        body = (await self._http.post("/a2a", json=call, headers=headers)).json()
        assert "result" in body, body
        return body["result"]
