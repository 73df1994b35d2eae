"""What can be done with registered agents."""

from dragoman.operations import Effect, Operation, Page
from dragoman.services.gateway import models as m

KEYS = "manage:keys"
_ID = "01890a5d-ac96-774b-bcce-b302099a8057"
_PEM = "-----BEGIN CERTIFICATE-----\nMIIB...\n-----END CERTIFICATE-----\n"

REGISTER = Operation(
    "a2a_agent.register", "Register an agent for the agent gateway", m.RegisterAgent, m.NewAgentKey, KEYS, Effect.WRITE,
    description="The agent queries at `/a2a/v1/query` with this client certificate and the key in the answer, which is "
    "shown this once. Its tenant is that of the registration, whatever it says in a request.",
    example={"name": "FinOps of Acme", "certificate": _PEM},
)  # fmt: skip
LIST = Operation("a2a_agent.list", "List registered agents", m.ListAgents, Page[m.Agent], KEYS)
GET = Operation(
    "a2a_agent.get", "Show a registered agent", m.AgentRef, m.Agent, KEYS, example={"agent_id": _ID}
)  # fmt: skip
UPDATE = Operation(
    "a2a_agent.update", "Change a registered agent", m.UpdateAgent, m.Agent, KEYS, Effect.WRITE,
    example={"agent_id": _ID, "per_min": 60},
)  # fmt: skip
ROTATE = Operation(
    "a2a_agent.rotate", "Replace the key of a registered agent", m.RotateAgent, m.NewAgentKey, KEYS, Effect.WRITE,
    description="And its certificate, if a new one is given. The old ones end now, or after `grace_s`.",
    example={"agent_id": _ID, "grace_s": 3600},
)  # fmt: skip
SUSPEND = Operation(
    "a2a_agent.suspend", "Refuse a registered agent until it is resumed", m.AgentRef, m.Agent, KEYS, Effect.WRITE,
    example={"agent_id": _ID},
)  # fmt: skip
RESUME = Operation(
    "a2a_agent.resume", "Let a suspended agent in again", m.AgentRef, m.Agent, KEYS, Effect.WRITE,
    example={"agent_id": _ID},
)  # fmt: skip
REMOVE = Operation(
    "a2a_agent.remove", "Remove a registered agent", m.AgentRef, m.RemovedAgent, KEYS, Effect.DESTRUCTIVE,
    example={"agent_id": _ID},
)  # fmt: skip
