"""What can be done with workers and with what they may do."""

from dragoman.operations import Effect, Operation, Page
from dragoman.services.workers import models as m

MANAGE, READ = "manage:workers", "read:tasks"

REGISTER_WORKER = Operation(
    "worker.register", "Register a worker", m.RegisterWorker, m.WorkerView, MANAGE, Effect.WRITE,
    description="An A2A agent or an MCP server that can perform actions. It performs none until one is allowed.",
    example={
        "name": "partner", "kind": "a2a", "url": "https://agent.example.com",
        "actions": [{
            "action": "signature.send", "summary": "Send a contract out for signature.", "version": "1",
            "sensitive": True, "timeout_s": 60, "at_once": 10,
        }],
    },
)  # fmt: skip
LIST_WORKERS = Operation("worker.list", "List workers", m.ListWorkers, Page[m.WorkerView], MANAGE)
UPDATE_WORKER = Operation(
    "worker.update", "Change a worker", m.UpdateWorker, m.WorkerView, MANAGE, Effect.WRITE,
    example={"worker": "a2a:partner", "enabled": False},
)  # fmt: skip
REMOVE_WORKER = Operation(
    "worker.remove", "Remove a worker", m.WorkerRef, m.WorkerView, MANAGE, Effect.DESTRUCTIVE,
    description="Its credential and all that was decided about it go with it.", example={"worker": "a2a:partner"},
)  # fmt: skip
LIST_CAPABILITIES = Operation(
    "capability.list", "List who performs what", m.ListCapabilities, Page[m.CapabilityView], READ,
    description="Every action of every worker: versions, limits, what it takes, and whether it is allowed.",
)  # fmt: skip
ALLOW_CAPABILITY = Operation(
    "capability.allow", "Let a worker perform an action", m.AllowCapability, m.CapabilityDecision, MANAGE, Effect.WRITE,
    example={"action": "signature.send", "worker": "a2a:partner", "prefer": True},
)  # fmt: skip
DENY_CAPABILITY = Operation(
    "capability.deny", "Let a worker perform an action no more", m.DenyCapability, m.CapabilityDecision, MANAGE,
    Effect.WRITE, example={"action": "signature.send", "worker": "signature"},
)  # fmt: skip
