"""What can be done with knowledge."""

from dragoman.operations import Effect, Operation
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
    "knowledge.deprecate", "Deprecate an item", m.Decide, m.Written, ACCEPT, Effect.WRITE,
    description="It is no longer in force and nothing takes its place.", example={"id": _ID, "reason": "obsolete"},
)  # fmt: skip
SUPERSEDE_ITEM = Operation(
    "knowledge.supersede", "Replace an item by another", m.SupersedeItem, m.Written, ACCEPT, Effect.WRITE,
    example={"id": _ID, "by": "adr-use-postgresql-18"},
)  # fmt: skip
SYNC = Operation(
    "knowledge.sync", "Merge a remote repository", m.SyncKnowledge, m.SyncResult, WRITE, Effect.WRITE, long=True,
    description="Fetches, merges and indexes, and says how far it is. Another remote than before needs "
    "accept:knowledge: what it has accepted is in force here.",
    example={"remote": "https://git.example.com/acme/knowledge.git", "branch": "main"},
)  # fmt: skip
