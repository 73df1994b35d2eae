"""An installation as it is run: servers and workers on one PostgreSQL and one Valkey, each with its own network."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Self

from tests.chaos.backends import DATABASE, Postgres, Valkey
from tests.chaos.callers import Caller
from tests.chaos.journal import OUTSIDE, Journal
from tests.chaos.machine import free_port, small_disk
from tests.chaos.nodes import Node
from tests.chaos.partition import Link, Proxy
from tests.harness import GENEROUS, wait_for
from tests.test_plugins import installed

LEASE_S = 2.0
# The actions that the remote agent and the remote MCP server perform.
REMOTE_A2A, REMOTE_MCP = "seal.affix", "form.fill"
_TREE = str(Path(__file__).parents[2])
_QUICK = {
    "DRAGOMAN_TASKS__LEASE_S": str(LEASE_S),
    "DRAGOMAN_TASKS__RETRY_BASE_S": "0.1",
    "DRAGOMAN_TASKS__RETRY_MAX_S": "0.5",
    "DRAGOMAN_TASKS__WORKERS": "tests.chaos.crew:workers",
    # A worker takes over turns as well, so it needs the agent, too.
    "DRAGOMAN_AGENT": "tests.chaos.agent:agent",
    "DRAGOMAN_LIMITS__A2A_TENANT_PER_MIN": "1000000",
    # As in production: Valkey is among what a run pauses.
    "DRAGOMAN_LIMITS__VALKEY_TIMEOUT_S": "0.05",
    "DRAGOMAN_OUTBOUND__ALLOW": "127.0.0.1",
    "DRAGOMAN_DATABASE_POOL": "8",
    "DRAGOMAN_DRAIN_S": "3",
    "DRAGOMAN_LOG_FORMAT": "json",
}


class Installation:
    """PostgreSQL, Valkey and named processes; everything ends with it."""

    def __init__(self, environment: Mapping[str, str] | None = None, *, disk_mb: int | None = None) -> None:
        self._stack = ExitStack()
        # Memory where there is some: what is tested is durability against processes, not against the disk.
        parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.place = Path(tempfile.mkdtemp(prefix="dgc-", dir=parent))
        self.place.chmod(0o755)
        self._stack.callback(shutil.rmtree, self.place, ignore_errors=True)
        self.journal = Journal(self.place / "outside")
        self.disk: Path | None = None
        if disk_mb is not None and self._stack.enter_context(small_disk(self.place / "disk", megabytes=disk_mb)):
            self.disk = self.place / "disk"
        backends = self.place / "backends"
        backends.mkdir()
        self.postgres = Postgres(backends, data=self.disk)
        self.valkey = Valkey(backends)
        self.nodes: dict[str, Node] = {}
        # Servers of others that perform actions for this installation; they share the PostgreSQL, and nothing else.
        self.partners: dict[str, Node] = {}
        self.forms = self.journal.place / "forms"
        self.forms.mkdir()
        # Handles the events that webhooks bring.
        self._plugins = installed(self.place / "site", "recorder", "tests.services.inbox.recorder:PLUGIN")
        self._callers: list[Caller] = []
        self._extra = dict(environment or {})

    def add(self, name: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Node:
        """Declare a process; `arguments` are those of the program: `serve`, `worker`."""
        proxy = self._stack.enter_context(Proxy(self.postgres.port))
        chosen = self._environment(proxy, DATABASE) | dict(environment or {})
        self.nodes[name] = Node(name, self.place, chosen, *arguments, proxy=proxy, secrets=self.place / "secrets")
        return self.nodes[name]

    def add_partners(self) -> None:
        """Declare a remote A2A agent with a database and keys of its own, and a remote MCP server."""
        proxy = self._stack.enter_context(Proxy(self.postgres.port))
        environment = self._environment(proxy, "partner") | {"DRAGOMAN_TASKS__WORKERS": ""}
        arguments = ("serve", "--agent", "tests.chaos.partner:agent")
        secrets = self.place / "partner-secrets"
        self.partners["partner"] = Node("partner", self.place, environment, *arguments, proxy=proxy, secrets=secrets)
        port = str(free_port())
        command = ("-m", "tests.services.tasks.mcp_worker", port, str(self.forms))
        python = Path(sys.executable)
        forms = Node("forms", self.place, environment, *command, proxy=proxy, secrets=secrets, program=python)
        forms.url = f"http://127.0.0.1:{port}/mcp"
        self.partners["forms"] = forms

    def start_partners(self) -> None:
        """Start them, and let the tenant `demo` give them work."""
        self.postgres.run("CREATE DATABASE partner", database="postgres")
        partner, forms = self.partners["partner"], self.partners["forms"]
        forms.launch()
        partner.start()
        caller = self.caller(next(iter(self.nodes)))
        agent = {"name": "partner", "kind": "a2a", "url": partner.url, "credential": partner.token(role="agent")}
        tools = {"name": "forms", "kind": "mcp", "url": forms.url}
        for worker, action in ((agent, REMOTE_A2A), (tools, REMOTE_MCP)):
            known = caller.rest("POST", "/api/workers", worker | {"actions": [{"action": action, "timeout_s": 30}]})
            assert known.status_code == 201, known.text
            allowed = {"worker": f"{worker['kind']}:{worker['name']}"}
            assert caller.rest("POST", f"/api/capabilities/{action}/allow", allowed).status_code == 200

    def _environment(self, proxy: Proxy, database: str) -> dict[str, str]:
        clean = {key: value for key, value in os.environ.items() if not key.startswith("DRAGOMAN_")}
        cache = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / "dgt-pycache")}
        ours = {
            "PYTHONPATH": os.pathsep.join(filter(None, [self._plugins, _TREE, os.environ.get("PYTHONPATH")])),
            "DRAGOMAN_DATABASE_URL": f"postgresql://postgres@127.0.0.1:{proxy.port}/{database}",
            "DRAGOMAN_REDIS_URL": self.valkey.url,
            OUTSIDE: str(self.journal.place),
        }
        return clean | cache | GENEROUS | _QUICK | ours | self._extra

    def start(self) -> Self:
        """Start everything that was declared, the first process alone: it migrates."""
        self.postgres.start()
        self.valkey.start()
        first, *others = self.nodes.values()
        first.start()
        for node in others:
            node.launch()
        for node in others:
            node.wait_until_ready()
        return self

    def heal(self) -> None:
        """End every fault, and start what has ended."""
        for backend in (self.postgres, self.valkey):
            backend.resume()
            if not backend.running:
                backend.start()
        for node in self.nodes.values():
            node.link(Link.UP)
            node.resume()
            if not node.alive:
                node.start()

    def caller(self, name: str) -> Caller:
        """A caller at this server, until the installation ends or `release_callers`."""
        self._callers.append(Caller(self.nodes[name]))
        return self._callers[-1]

    def caller_beside(self, name: str) -> Caller:
        """A caller at a server that is not this process."""
        return self.caller(next(node.name for node in self.nodes.values() if node.serves and node.name != name))

    def wait_for_renewals(self, task_id: str) -> None:
        """Wait until an attempt at a task has kept it for longer than one lease lasts, by renewing it."""
        begun: dict[int, datetime] = {}
        leased = "SELECT attempt, lease_until FROM task_queue WHERE task_id = $1::uuid AND worker IS NOT NULL"

        def renewed() -> bool:
            return any(
                row["lease_until"] - begun.setdefault(row["attempt"], row["lease_until"]) > timedelta(seconds=LEASE_S)
                for row in self.postgres.run(leased, task_id)
            )

        wait_for(renewed, f"the lease of {task_id} to be renewed")

    def release_callers(self) -> None:
        """Close the connections of every caller so far."""
        while self._callers:
            self._callers.pop().close()

    def close(self) -> None:
        """End every process, and remove everything."""
        steps: list[Callable[[], object]] = [node.kill for node in (*self.nodes.values(), *self.partners.values())]
        steps += [self.postgres.stop, self.valkey.kill, self.release_callers]
        for step in steps:
            self._stack.callback(step)
        self._stack.close()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()


def two_servers(*extra: str, environment: Mapping[str, str] | None = None) -> Installation:
    """Two servers `s1` and `s2` that serve the agent of these tests, and workers as they are named."""
    made = Installation(environment)
    for name in ("s1", "s2"):
        made.add(name, "serve", "--agent", "tests.chaos.agent:agent")
    for name in extra:
        made.add(name, "worker")
    return made


def ahead_by(seconds: float, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """What makes the wall clock of a process be so far ahead that has this environment otherwise."""
    path = [str(Path(__file__).parent / "skew"), (environment or {}).get("PYTHONPATH", _TREE)]
    return {"PYTHONPATH": os.pathsep.join(path), "CHAOS_AHEAD_S": str(seconds)}
