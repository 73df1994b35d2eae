"""Which operation answers at which address. Everything else about REST follows from the operation.

`BINDINGS` are those of the core; `bindings` adds those of the installed plugins.
"""

from functools import cache

from dragoman.operations import Binding
from dragoman.plugin import installed_plugins
from dragoman.services.approvals import operations as approvals
from dragoman.services.audit import operations as audit
from dragoman.services.checklists import operations as checklists
from dragoman.services.contracts import operations as contracts
from dragoman.services.gateway import operations as gateway
from dragoman.services.governance import operations as governance
from dragoman.services.grants import operations as grants
from dragoman.services.inbox import operations as inbox
from dragoman.services.knowledge import operations as knowledge
from dragoman.services.memory import operations as memory
from dragoman.services.signatures import operations as signatures
from dragoman.services.subscriptions import operations as subscriptions
from dragoman.services.tasks import operations as task
from dragoman.services.tenancy import operations as tenancy
from dragoman.services.workers import operations as workers
from dragoman.services.workers import operations_profile as profile

BINDINGS = (
    Binding("POST", "/api/tenant", tenancy.CREATE_TENANT, 201),
    Binding("GET", "/api/tenant", tenancy.LIST_TENANTS),
    Binding("GET", "/api/tenant/{tenant}", tenancy.GET_TENANT),
    Binding("PATCH", "/api/tenant/{tenant}", tenancy.UPDATE_TENANT),
    Binding("DELETE", "/api/tenant/{tenant}", tenancy.DELETE_TENANT),
    Binding("POST", "/api/tenant/{tenant}/suspend", tenancy.SUSPEND_TENANT),
    Binding("POST", "/api/tenant/{tenant}/resume", tenancy.RESUME_TENANT),
    Binding("POST", "/api/users", tenancy.INVITE_USER, 201),
    Binding("GET", "/api/users", tenancy.LIST_USERS),
    Binding("POST", "/api/users/accept", tenancy.ACCEPT_INVITATION),
    Binding("GET", "/api/users/{user_id}", tenancy.GET_USER),
    Binding("PATCH", "/api/users/{user_id}", tenancy.UPDATE_USER),
    Binding("DELETE", "/api/users/{user_id}", tenancy.DELETE_USER),
    Binding("POST", "/api/users/{user_id}/disable", tenancy.DISABLE_USER),
    Binding("POST", "/api/users/{user_id}/enable", tenancy.ENABLE_USER),
    Binding("POST", "/api/keys", tenancy.CREATE_KEY, 201),
    Binding("GET", "/api/keys", tenancy.LIST_KEYS),
    Binding("GET", "/api/keys/{key_id}", tenancy.GET_KEY),
    Binding("DELETE", "/api/keys/{key_id}", tenancy.REVOKE_KEY),
    Binding("POST", "/api/keys/{key_id}/rotate", tenancy.ROTATE_KEY, 201),
    Binding("POST", "/api/tokens/revoke", tenancy.REVOKE_TOKEN),
    Binding("GET", "/api/me", tenancy.SHOW_IDENTITY),
    Binding("GET", "/api/audit", audit.LIST_RECORDS),
    Binding("POST", "/api/audit/verify", audit.VERIFY_TRAIL),
    Binding("GET", "/api/audit/export", audit.EXPORT_TRAIL),
    Binding("POST", "/api/knowledge/query", knowledge.QUERY),
    Binding("POST", "/api/knowledge/check", knowledge.CHECK),
    Binding("POST", "/api/knowledge/propose", knowledge.PROPOSE, 201),
    Binding("POST", "/api/knowledge/sync", knowledge.SYNC),
    Binding("GET", "/api/knowledge/status", knowledge.STATUS),
    Binding("GET", "/api/knowledge/constraints", knowledge.LIST_CONSTRAINTS),
    Binding("GET", "/api/knowledge/{id}", knowledge.SHOW),
    Binding("GET", "/api/knowledge/{id}/history", knowledge.HISTORY),
    Binding("GET", "/api/knowledge/{id}/diff", knowledge.DIFF),
    Binding("POST", "/api/knowledge/{id}/accept", knowledge.ACCEPT_ITEM),
    Binding("POST", "/api/knowledge/{id}/reject", knowledge.REJECT_ITEM),
    Binding("POST", "/api/knowledge/{id}/deprecate", knowledge.DEPRECATE_ITEM),
    Binding("POST", "/api/knowledge/{id}/supersede", knowledge.SUPERSEDE_ITEM),
    Binding("GET", "/api/knowledge-remotes", knowledge.LIST_REMOTES),
    Binding("POST", "/api/knowledge-remotes", knowledge.CONNECT),
    Binding("DELETE", "/api/knowledge-remotes/{connection_id}", knowledge.DISCONNECT),
    Binding("POST", "/api/memories", memory.ADD),
    Binding("POST", "/api/memories/bulk", memory.ADD_MANY),
    Binding("POST", "/api/memories/search", memory.SEARCH),
    Binding("POST", "/api/memories/list", memory.LIST),
    Binding("POST", "/api/memories/context", memory.SHOW_CONTEXT),
    Binding("POST", "/api/memories/update", memory.UPDATE),
    Binding("POST", "/api/memories/export", memory.EXPORT),
    Binding("POST", "/api/memories/import", memory.IMPORT),
    Binding("GET", "/api/memories/{memory_id}", memory.GET),
    Binding("DELETE", "/api/memories/{memory_id}", memory.DELETE),
    Binding("GET", "/api/memories/{memory_id}/history", memory.HISTORY),
    Binding("POST", "/api/memories/{memory_id}/promote", memory.PROMOTE),
    Binding("POST", "/api/documents", contracts.ADD, 201),
    Binding("GET", "/api/documents", contracts.LIST),
    Binding("GET", "/api/documents/{document_id}", contracts.SHOW),
    Binding("GET", "/api/documents/{document_id}/content", contracts.READ_CONTENT),
    Binding("POST", "/api/checklists", checklists.CREATE, 201),
    Binding("GET", "/api/checklists/{checklist_id}", checklists.SHOW),
    Binding("POST", "/api/checklists/{checklist_id}/validate", checklists.VALIDATE),
    Binding("GET", "/api/templates", contracts.LIST_TEMPLATES),
    Binding("POST", "/api/governance/validate", governance.VALIDATE),
    Binding("POST", "/api/governance/drift", governance.CHECK_DRIFT),
    Binding("POST", "/api/governance/policies", governance.LIST_POLICIES),
    Binding("GET", "/api/governance/decisions", governance.LIST_DECISIONS),
    Binding("POST", "/api/governance/replay", governance.REPLAY),
    Binding("POST", "/api/suppressions", governance.SUPPRESS, 201),
    Binding("GET", "/api/suppressions", governance.LIST_SUPPRESSIONS),
    Binding("DELETE", "/api/suppressions/{suppression_id}", governance.LIFT_SUPPRESSION),
    Binding("POST", "/api/a2a-agents", gateway.REGISTER, 201),
    Binding("GET", "/api/a2a-agents", gateway.LIST),
    Binding("GET", "/api/a2a-agents/{agent_id}", gateway.GET),
    Binding("PATCH", "/api/a2a-agents/{agent_id}", gateway.UPDATE),
    Binding("DELETE", "/api/a2a-agents/{agent_id}", gateway.REMOVE),
    Binding("POST", "/api/a2a-agents/{agent_id}/rotate", gateway.ROTATE, 201),
    Binding("POST", "/api/a2a-agents/{agent_id}/suspend", gateway.SUSPEND),
    Binding("POST", "/api/a2a-agents/{agent_id}/resume", gateway.RESUME),
    Binding("POST", "/api/webhook-sources", inbox.CREATE, 201),
    Binding("GET", "/api/webhook-sources", inbox.LIST),
    Binding("GET", "/api/webhook-sources/{source_id}", inbox.GET),
    Binding("PATCH", "/api/webhook-sources/{source_id}", inbox.UPDATE),
    Binding("DELETE", "/api/webhook-sources/{source_id}", inbox.REMOVE),
    Binding("POST", "/api/webhook-sources/{source_id}/rotate", inbox.ROTATE, 201),
    Binding("GET", "/api/webhook-events", inbox.LIST_EVENTS),
    Binding("GET", "/api/webhook-events/{webhook_event_id}", inbox.GET_EVENT),
    Binding("POST", "/api/webhook-events/{webhook_event_id}/replay", inbox.REPLAY_EVENT),
    Binding("POST", "/api/subscriptions", subscriptions.CREATE, 201),
    Binding("GET", "/api/subscriptions", subscriptions.LIST),
    Binding("GET", "/api/subscriptions/{subscription_id}", subscriptions.GET),
    Binding("PATCH", "/api/subscriptions/{subscription_id}", subscriptions.UPDATE),
    Binding("DELETE", "/api/subscriptions/{subscription_id}", subscriptions.REMOVE),
    Binding("POST", "/api/subscriptions/{subscription_id}/rotate", subscriptions.ROTATE, 201),
    Binding("POST", "/api/subscriptions/{subscription_id}/test", subscriptions.TEST),
    Binding("GET", "/api/subscriptions/{subscription_id}/deliveries", subscriptions.LIST_DELIVERIES),
    Binding("GET", "/api/deliveries/{delivery_id}", subscriptions.GET_DELIVERY),
    Binding("POST", "/api/deliveries/{delivery_id}/redeliver", subscriptions.REDELIVER),
    Binding("POST", "/api/workers", workers.REGISTER_WORKER, 201),
    Binding("GET", "/api/workers", workers.LIST_WORKERS),
    Binding("PATCH", "/api/workers/{worker}", workers.UPDATE_WORKER),
    Binding("DELETE", "/api/workers/{worker}", workers.REMOVE_WORKER),
    Binding("GET", "/api/profile", profile.SHOW_PROFILE),
    Binding("GET", "/api/capabilities", workers.LIST_CAPABILITIES),
    Binding("POST", "/api/capabilities/{action}/allow", workers.ALLOW_CAPABILITY),
    Binding("POST", "/api/capabilities/{action}/deny", workers.DENY_CAPABILITY),
    Binding("POST", "/api/approvals", approvals.REQUEST, 201),
    Binding("GET", "/api/approvals", approvals.LIST),
    Binding("GET", "/api/approvals/{approval_id}", approvals.SHOW),
    Binding("POST", "/api/approvals/{approval_id}/decide", approvals.DECIDE_ONE),
    Binding("POST", "/api/approvals/{approval_id}/withdraw", approvals.WITHDRAW),
    Binding("POST", "/api/grants", grants.CREATE, 201),
    Binding("GET", "/api/grants", grants.LIST),
    Binding("GET", "/api/grants/{grant_id}", grants.SHOW),
    Binding("POST", "/api/grants/{grant_id}/end", grants.END),
    Binding("POST", "/api/tasks", task.SUBMIT, 201),
    Binding("GET", "/api/tasks", task.LIST),
    Binding("POST", "/api/tasks/retry", task.RETRY_MANY),
    Binding("POST", "/api/tasks/cancel", task.CANCEL_MANY),
    Binding("GET", "/api/tasks/{task_id}", task.STATUS),
    Binding("GET", "/api/tasks/{task_id}/events", task.EVENTS),
    Binding("POST", "/api/tasks/{task_id}/retry", task.RETRY),
    Binding("POST", "/api/tasks/{task_id}/cancel", task.CANCEL),
    Binding("POST", "/api/tasks/{task_id}/input", task.PROVIDE_INPUT),
    Binding("POST", "/api/tasks/{task_id}/transition", task.TRANSITION),
    Binding("GET", "/api/signatures", signatures.LIST),
    Binding("POST", "/api/signatures/verify", signatures.VERIFY),
    Binding("GET", "/api/signatures/{signature_id}", signatures.GET),
    Binding("POST", "/api/signatures/{signature_id}/sign", signatures.SIGN_DOCUMENT),
    Binding("POST", "/api/signatures/{signature_id}/decline", signatures.DECLINE),
    Binding("POST", "/api/links", signatures.CREATE_LINK, 201),
    Binding("GET", "/api/links/request", signatures.SHOW_LINK),
    Binding("GET", "/api/links/document", signatures.READ_LINK),
    Binding("POST", "/api/links/sign", signatures.SIGN_BY_LINK),
    Binding("POST", "/api/links/decline", signatures.DECLINE_BY_LINK),
    Binding("GET", "/api/signing-providers", signatures.LIST_PROVIDERS),
    Binding("POST", "/api/signing-providers", signatures.CONFIGURE),
    Binding("DELETE", "/api/signing-providers/{provider}", signatures.REMOVE_PROVIDER),
)


@cache
def bindings() -> tuple[Binding, ...]:
    """Return every address, those of plugins last."""
    return (*BINDINGS, *(binding for plugin in installed_plugins() for binding in plugin.load_bindings()))
