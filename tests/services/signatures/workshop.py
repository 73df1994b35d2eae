"""The worker at work beside a running server: on its database and with its keys, and with a ledger that can crash."""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID, uuid4

import httpx
import typst

from dragoman.app.contracts import build_documents
from dragoman.app.signatures import build_signatures
from dragoman.context import Caller, PrincipalType, Role, TenantId
from dragoman.errors import DragomanError
from dragoman.infra.auth.keyring import Keyring
from dragoman.infra.breaker import Breakers
from dragoman.infra.config import load_settings
from dragoman.infra.db import CORE_ROLE, Database
from dragoman.infra.outbound import Allowed, Clients
from dragoman.infra.telemetry.metrics import Metrics
from dragoman.operations import Handlers
from dragoman.services.tasks.actions.envelope import Envelope
from dragoman.services.workers.protocol import Assignment, Performed
from tests.backstage import database_url, sql
from tests.harness import Server
from tests.services.audit.stating import make_trail
from tests.tenants import done, new_tenant

Json = dict[str, Any]
T = TypeVar("T")
GOVERNANCE = {"approvals": [{"id": "a1", "decided_by": "boss"}], "policies": [{"id": "p1", "version": "7"}]}


class Crashed(Exception):
    """The worker died between what it did and what it noted of it."""


class Ledger:
    """The effects of one task, in memory; with `crashes` the next outcome is lost."""

    def __init__(self) -> None:
        self._outcomes: dict[str, Json | None] = {}
        self.crashes = False

    async def once(
        self,
        step: str,
        request: Json,  # noqa: ARG002 - as the port has it
        perform: Callable[[str], Awaitable[Json]],
        *,
        find: Callable[[str], Awaitable[Json | None]] | None = None,
        repeatable: bool = False,
    ) -> Json:
        """As the port promises."""
        key = f"{id(self)}:{step}"
        if (known := self._outcomes.get(step)) is not None:
            return known
        outcome: Json | None = None
        if step in self._outcomes and not repeatable:
            assert find is not None
            outcome = await find(key)
        self._outcomes.setdefault(step, None)
        if outcome is None:
            try:
                outcome = await perform(key)
            except DragomanError as error:
                if not error.retryable:
                    del self._outcomes[step]
                raise
            if self.crashes:
                self.crashes = False
                raise Crashed
        self._outcomes[step] = outcome
        return outcome


class Workbench:
    """The worker of a process of its own, for tests that share it."""

    def __init__(self, server: Server, outside: dict[str, str] | None = None) -> None:
        settings = load_settings({"DRAGOMAN_DATA_DIR": str(server.data_dir), **(outside or {})})
        self.server = server
        self._loop = asyncio.Runner()
        db, core_db = Database(database_url(server)), Database(database_url(server), role=CORE_ROLE)
        self._databases = (db, core_db)
        keyring = Keyring.open(server.data_dir / "secrets")
        trail = make_trail(db, mac_key=keyring.audit_mac)
        documents = build_documents(settings, Handlers(), db, trail)
        outgoing = Clients(Breakers(metrics=Metrics()), Allowed.of(settings.outbound.allow))
        self.core = build_signatures(settings, Handlers(), (db, core_db), trail, documents, keyring, outgoing)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it on its loop."""
        return self._loop.run(work)

    def close(self) -> None:
        """Put everything away."""
        self.run(self.core.stop())
        for database in self._databases:
            self.run(database.stop())
        self._loop.close()


@dataclass
class Workshop:
    """One tenant's work with signatures."""

    bench: Workbench
    tenant: str

    @classmethod
    def of_new_tenant(cls, bench: Workbench) -> "Workshop":
        """With a tenant of its own."""
        return cls(bench, new_tenant(bench.server))

    @property
    def server(self) -> Server:
        """The server beside it."""
        return self.bench.server

    def client(self, user: str = "boss", role: str = "org_admin") -> httpx.Client:
        """Somebody of the tenant, at the doors of the server."""
        return self.server.client(self.server.token(role=role, tenant=self.tenant, user=user))

    def document(self, text: str = "= NDA") -> Json:
        """A PDF that is kept."""
        content = base64.b64encode(typst.compile(text.encode())).decode()
        given = {"content": content, "media_type": "application/pdf", "title": "NDA"}
        with self.client() as boss:
            return done(boss.post("/api/documents", json=given))

    def content(self, document_id: str, version: int | None = None) -> bytes:
        """What stands in a document."""
        query = {"version": version} if version else {}
        with self.client() as boss:
            found = done(boss.get(f"/api/documents/{document_id}/content", params=query))
        return base64.b64decode(found["content"])

    def perform(
        self, action: str, resource: Json, given: Json, *, task: UUID | None = None, ledger: Ledger | None = None
    ) -> Performed:
        """One attempt at one task."""
        worker = self.bench.core.worker
        capability = next(one for one in worker.capabilities if one.action == action)
        task = task or uuid4()
        envelope = Envelope.model_validate(
            {
                "envelope_version": "1", "actor": {"id": "boss", "type": "human"}, "action": action,
                "resource": resource, "matter": {"id": "m1"}, "idempotency_key": str(task), "request": {},
                "input": given,
            }
        )  # fmt: skip
        assignment = Assignment(
            caller=self.caller(), task_id=task, envelope=envelope, input=capability.input.model_validate(given),
            attempt=1, effects=ledger or Ledger(), governance=GOVERNANCE,
        )  # fmt: skip
        return self.bench.run(worker.perform(assignment))

    def request(self, document: Json, *emails: str, **more: Any) -> Json:
        """A draft of a request for the signatures of these people."""
        signers = [{"name": email.partition("@")[0].title(), "email": email} for email in emails]
        given = {"signers": signers, **more}
        resource = {"type": "document", "id": document["id"], "sha256": document["sha256"]}
        return self.perform("signature.prepare", resource, given).output

    def send(self, signature: Json, **options: Any) -> Json:
        """What came of sending it."""
        return self.perform(
            "signature.send", {"type": "signature", "id": signature["signature_id"]}, {}, **options
        ).output

    def caller(self) -> Caller:
        """Who hands over tasks."""
        row = sql(self.server, "SELECT id FROM tenants WHERE slug = $1", self.tenant)[0]
        return Caller(
            TenantId(row["id"]), self.tenant, "boss", PrincipalType.USER, frozenset({Role.ORG_ADMIN}), "c1", 0.0
        )  # fmt: skip
