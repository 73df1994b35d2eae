"""What can be done with knowledge."""

from dragoman.operations import Effect, Operation, Page
from dragoman.services.knowledge import models as m

READ, WRITE, ACCEPT = "read:knowledge", "write:knowledge", "accept:knowledge"
_ID = "adr-use-postgresql"

QUERY = Operation(
    "knowledge.query", "Ask what is known", m.QueryKnowledge, m.QueryResult, READ,
    description="Finds decisions, policies, patterns and specs by words, type, layer, tags and status.",
    example={"query": "which database do we use?", "type": "adr"},
)  # fmt: skip
SHOW = Operation(
    "knowledge.show", "Show an item", m.ShowItem, m.KnowledgeItem, READ,
    description="The whole item: content, constraints, metadata, and its history on request.",
    example={"id": _ID, "include_history": True},
)  # fmt: skip
CHECK = Operation(
    "knowledge.check", "Check files and dependencies", m.CheckKnowledge, m.CheckResult, READ,
    description="Holds a change against the constraints of all accepted items. It passes when nothing of severity "
    "block is violated.",
    example={"files": [{"path": "src/app.py", "content": "import sqlite3\n"}], "min_severity": "warn"},
)  # fmt: skip
LIST_CONSTRAINTS = Operation(
    "knowledge.constraints", "List the constraints in force", m.ListConstraints, m.ConstraintsInForce, READ,
    description="What knowledge.check holds a change against: the constraints of all accepted items, blocking ones "
    "first. Read it before the change is written.",
    example={"min_severity": "block"},
)  # fmt: skip
HISTORY = Operation(
    "knowledge.history", "List the changes of an item", m.ItemHistory, m.ChangeHistory, READ, example={"id": _ID}
)
DIFF = Operation("knowledge.diff", "Show how an item changed", m.DiffItem, m.Difference, READ, example={"id": _ID})
STATUS = Operation(
    "knowledge.status", "Show how the repository stands", m.ShowStatus, m.RepositoryStatus, READ,
    description="Where it is, when it was last synced, and what is wrong with which file.",
)  # fmt: skip
PROPOSE = Operation(
    "knowledge.propose", "Propose an item or a change of one", m.ProposeItem, m.Written, WRITE, Effect.WRITE,
    description="It is written on a branch of its own until it is accepted or rejected. An accepted decision cannot "
    "be changed; propose another that supersedes it.",
    example={"type": "adr", "title": "Use PostgreSQL", "content": "One database for everything.",
             "constraints": [{"operator": "must_not_use", "target": "import", "pattern": "sqlite3", "path": None,
                              "version": None, "applies_to": ["src/**"], "severity": "block",
                              "message": "Use the pool of infra/db."}]},
)  # fmt: skip
ACCEPT_ITEM = Operation(
    "knowledge.accept", "Accept a proposal", m.AcceptItem, m.Written, ACCEPT, Effect.WRITE,
    description="It becomes part of the main branch and is in force; what it supersedes is so no longer. Where a "
    "policy demands approvals for knowledge.accept, one of exactly this proposal is needed.",
    example={"id": _ID, "reason": "agreed in review"},
)  # fmt: skip
REJECT_ITEM = Operation(
    "knowledge.reject", "Reject a proposal", m.Decide, m.Written, ACCEPT, Effect.WRITE,
    description="It is kept, with the reason, and is not in force.", example={"id": _ID, "reason": "too costly"},
)  # fmt: skip
DEPRECATE_ITEM = Operation(
    "knowledge.deprecate", "Deprecate an item", m.EndItem, m.Written, ACCEPT, Effect.WRITE,
    description="It is no longer in force and nothing takes its place. Where a policy demands approvals for "
    "knowledge.accept, an approval of ending exactly this item is needed.",
    example={"id": _ID, "reason": "obsolete"},
)  # fmt: skip
SUPERSEDE_ITEM = Operation(
    "knowledge.supersede", "Replace an item by another", m.SupersedeItem, m.Written, ACCEPT, Effect.WRITE,
    description="It is no longer in force, and says which item took its place. It needs the same consent as "
    "knowledge.deprecate.",
    example={"id": _ID, "by": "adr-use-postgresql-18"},
)  # fmt: skip
SYNC = Operation(
    "knowledge.sync", "Merge a remote repository", m.SyncKnowledge, m.SyncResult, WRITE, Effect.WRITE, long=True,
    description="Fetches, merges and indexes, and says how far it is. Another remote than before needs "
    "accept:knowledge: what it has accepted is in force here. So does a merge that ends, changes or lessens a policy "
    "in force, and where a policy demands approvals for knowledge.accept, an approval of exactly this merge.",
    example={"remote": "https://git.example.com/acme/knowledge.git", "branch": "main"},
)  # fmt: skip
CONNECT = Operation(
    "knowledge.connect", "Set the credentials of a private remote", m.ConnectRemote, m.RemoteConnection, ACCEPT,
    Effect.WRITE,
    description="Use it before syncing from a remote that is private. They are sealed, used for exactly this remote, "
    "never shown again, and replace earlier ones.",
    example={"remote": "https://git.example.com/acme/knowledge.git", "username": "robot", "token": "glpat-1234"},
)  # fmt: skip
LIST_REMOTES = Operation(
    "knowledge.remotes", "List the remotes that have credentials", m.ListConnections, Page[m.RemoteConnection], ACCEPT,
    description="Which remotes have credentials here, of which kind, and who set them. Secrets are not shown.",
)  # fmt: skip
DISCONNECT = Operation(
    "knowledge.disconnect", "Remove the credentials of a remote", m.ConnectionRef, m.RemoteConnection, ACCEPT,
    Effect.DESTRUCTIVE,
    description="The remote stays known, and is synced without credentials from then on.",
    example={"connection_id": "0192c9a0-7b1e-7c3d-8f4a-5b6c7d8e9f00"},
)  # fmt: skip
