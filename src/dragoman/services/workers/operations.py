"""The operations on workers and on their capabilities."""

from dragoman.operations import Effect, Operation, Page
from dragoman.services.workers import models as m

MANAGE, READ = "manage:workers", "read:tasks"

REGISTER_WORKER = Operation(
    "worker.register", "Register a worker", m.RegisterWorker, m.WorkerView, MANAGE, Effect.WRITE,
    description="Add an A2A agent or an MCP server with the actions it can perform. It gets no task until "
    "`capability.allow` allows one of its actions.",
    example={
        "name": "partner", "kind": "a2a", "url": "https://agent.example.com",
        "actions": [{
            "action": "signature.send", "summary": "Send a contract out for signature.", "version": "1",
            "sensitive": True, "timeout_s": 60, "at_once": 10,
        }],
    },
)  # fmt: skip
LIST_WORKERS = Operation(
    "worker.list", "List workers", m.ListWorkers, Page[m.WorkerView], MANAGE,
    description="The workers of this server first, then those that the tenant registered, by name.",
)  # fmt: skip
UPDATE_WORKER = Operation(
    "worker.update", "Change a worker", m.UpdateWorker, m.WorkerView, MANAGE, Effect.WRITE,
    description="Change its address, actions or credential, or disable it. Attempts that run already go on.",
    example={"worker": "a2a:partner", "enabled": False},
)  # fmt: skip
REMOVE_WORKER = Operation(
    "worker.remove", "Remove a worker", m.WorkerRef, m.WorkerView, MANAGE, Effect.DESTRUCTIVE,
    description="Also deletes its credential and every decision about its capabilities.",
    example={"worker": "a2a:partner"},
)  # fmt: skip
LIST_CAPABILITIES = Operation(
    "capability.list", "List capabilities", m.ListCapabilities, Page[m.CapabilityView], READ,
    description="Use it to see which worker performs which action: each action of each worker, with its version, "
    "limits and input schema, and whether the tenant allows it.",
)  # fmt: skip
ALLOW_CAPABILITY = Operation(
    "capability.allow", "Allow a worker to perform an action", m.AllowCapability, m.CapabilityDecision, MANAGE,
    Effect.WRITE,
    description="Among several allowed workers the preferred one gets the tasks; `prefer` takes that from the others.",
    example={"action": "signature.send", "worker": "a2a:partner", "prefer": True},
)  # fmt: skip
DENY_CAPABILITY = Operation(
    "capability.deny", "Deny an action to a worker", m.DenyCapability, m.CapabilityDecision, MANAGE,
    Effect.WRITE,
    description="Without `worker` the action is denied to all that declare it now. A task for an action that no "
    "worker may perform is refused.",
    example={"action": "signature.send", "worker": "signature"},
)  # fmt: skip
