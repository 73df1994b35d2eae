"""What can be done with memories."""

from dragoman.operations import Effect, Operation, Page
from dragoman.services.memory import models as m
from dragoman.services.memory import session_context as s

READ, WRITE = "read:memory", "write:memory"
_ID = "01890a5d-ac96-774b-bcce-b302099a8057"

ADD = Operation(
    "memory.add", "Remember something", m.AddMemory, m.AddedMemory, WRITE, Effect.WRITE,
    description="It is found by its words at once and by its meaning soon after; what the layer has already is merged.",
    example={"content": "Ada prefers tea in the morning.", "layer": "user", "tags": ["preference"]},
)  # fmt: skip
ADD_MANY = Operation(
    "memory.add_many", "Remember several things", m.AddMemories, m.AddedMemories, WRITE, Effect.WRITE,
    description="All of them or none.", example={"memories": [{"content": "The office closes at six."}]},
)  # fmt: skip
SEARCH = Operation(
    "memory.search", "Find memories by meaning and by words", m.SearchMemories, m.Found, READ,
    description="Best first; where two say the same, or nearly tie, the more specific layer wins.",
    example={"query": "what does Ada drink?"},
)  # fmt: skip
GET = Operation("memory.get", "Show a memory", m.MemoryRef, m.Memory, READ, example={"memory_id": _ID})
LIST = Operation("memory.list", "List memories", m.ListMemories, Page[m.Memory], READ)
SHOW_CONTEXT = Operation(
    "memory.context", "Show what matters when a conversation begins", s.ShowContext, s.SessionContext, READ,
    description="Memories that fit what it is about, and the constraints in force, within a budget of characters. Call "
    "it first, with the ids of the project, team or session that the work belongs to.",
    example={"about": "the demo on Friday", "ids": {"project_id": "apollo"}},
)  # fmt: skip
HISTORY = Operation(
    "memory.history", "Show every version of a memory", m.MemoryRef, m.MemoryHistory, READ, example={"memory_id": _ID}
)
UPDATE = Operation(
    "memory.update", "Correct a memory", m.UpdateMemory, m.ChangedMemory, WRITE, Effect.WRITE,
    description="The old version stays in its history. A query that fits several is a conflict that lists them.",
    example={"memory_id": _ID, "content": "Ada prefers coffee in the morning."},
)  # fmt: skip
DELETE = Operation(
    "memory.delete", "Forget a memory for good", m.MemoryRef, m.ForgottenMemory, WRITE, Effect.DESTRUCTIVE,
    description="With all its versions; the audit trail keeps that it was forgotten, not what it said.",
    example={"memory_id": _ID},
)  # fmt: skip
PROMOTE = Operation(
    "memory.promote", "Move a memory to a more general layer", m.PromoteMemory, m.Promotion, WRITE, Effect.WRITE,
    description="From agent to user, from session to project, if it has earned it by importance and use.",
    example={"memory_id": _ID, "ids": {"project_id": "apollo"}},
)  # fmt: skip
EXPORT = Operation(
    "memory.export", "Export memories", m.ExportMemories, Page[m.Memory], READ,
    description="Every version that holds, a piece at a time.",
)  # fmt: skip
IMPORT = Operation(
    "memory.import", "Import memories", m.ImportMemories, m.AddedMemories, WRITE, Effect.WRITE,
    description="All of them or none.",
    example={"memories": [{"content": "The office closes at six.", "layer": "company"}]},
)  # fmt: skip
