"""What can be done with tenants, users and keys."""

from dragoman.operations import Effect, Operation, Page
from dragoman.services.tenancy import models as m

TENANTS, USERS, KEYS = "manage:tenants", "manage:users", "manage:keys"
_ID = "01890a5d-ac96-774b-bcce-b302099a8057"

CREATE_TENANT = Operation(
    "tenant.create", "Create a tenant", m.CreateTenant, m.Tenant, TENANTS, Effect.WRITE,
    example={"name": "Acme Corporation", "slug": "acme", "plan": "standard"},
)  # fmt: skip
LIST_TENANTS = Operation(
    "tenant.list", "List tenants", m.ListTenants, Page[m.Tenant], TENANTS,
    description="The platform sees all of them; a tenant sees itself.",
)  # fmt: skip
GET_TENANT = Operation("tenant.get", "Show a tenant", m.TenantRef, m.Tenant, TENANTS, example={"tenant": "acme"})
UPDATE_TENANT = Operation(
    "tenant.update", "Change a tenant", m.UpdateTenant, m.Tenant, TENANTS, Effect.WRITE,
    example={"tenant": "acme", "name": "Acme Incorporated"},
)  # fmt: skip
SUSPEND_TENANT = Operation(
    "tenant.suspend", "Suspend a tenant", m.TenantRef, m.Tenant, TENANTS, Effect.WRITE,
    description="All its credentials are refused at once; nothing is lost.", example={"tenant": "acme"},
)  # fmt: skip
RESUME_TENANT = Operation(
    "tenant.resume", "Let a suspended tenant in again", m.TenantRef, m.Tenant, TENANTS, Effect.WRITE,
    example={"tenant": "acme"},
)  # fmt: skip
DELETE_TENANT = Operation(
    "tenant.delete", "Delete a tenant", m.TenantRef, m.Tenant, TENANTS, Effect.DESTRUCTIVE,
    description="Its users and keys go; its slug is never given again; its audit trail stays.",
    example={"tenant": "acme"},
)  # fmt: skip

INVITE_USER = Operation(
    "user.invite", "Invite a user", m.InviteUser, m.InvitedUser, USERS, Effect.WRITE,
    description="The answer holds an invitation code, shown once, that the person presents as a bearer credential.",
    example={"email": "ada@example.com", "name": "Ada Lovelace", "role": "analyst"},
)  # fmt: skip
ACCEPT_INVITATION = Operation(
    "user.accept", "Accept an invitation", m.AcceptInvitation, m.AcceptedInvitation, "accept:invitation", Effect.WRITE,
    example={"name": "Ada King"},
)  # fmt: skip
LIST_USERS = Operation("user.list", "List users", m.ListUsers, Page[m.User], USERS)
GET_USER = Operation("user.get", "Show a user", m.UserRef, m.User, USERS, example={"user_id": _ID})
UPDATE_USER = Operation(
    "user.update",
    "Change a user",
    m.UpdateUser,
    m.User,
    USERS,
    Effect.WRITE,
    example={"user_id": _ID, "role": "operator"},
)
DISABLE_USER = Operation(
    "user.disable", "Disable a user", m.UserRef, m.User, USERS, Effect.WRITE,
    description="Every credential of theirs is refused at once.", example={"user_id": _ID},
)  # fmt: skip
ENABLE_USER = Operation(
    "user.enable", "Enable a user again", m.UserRef, m.User, USERS, Effect.WRITE, example={"user_id": _ID}
)
DELETE_USER = Operation(
    "user.delete", "Delete a user", m.UserRef, m.Removed, USERS, Effect.DESTRUCTIVE, example={"user_id": _ID}
)

CREATE_KEY = Operation(
    "key.create", "Make an API key", m.CreateKey, m.NewKey, KEYS, Effect.WRITE,
    description="The secret is in the answer, this once.", example={"name": "nightly report", "role": "agent"},
)  # fmt: skip
LIST_KEYS = Operation("key.list", "List API keys", m.ListKeys, Page[m.Key], KEYS)
GET_KEY = Operation("key.get", "Show an API key", m.KeyRef, m.Key, KEYS, example={"key_id": _ID})
ROTATE_KEY = Operation(
    "key.rotate",
    "Replace an API key by a fresh one",
    m.RotateKey,
    m.NewKey,
    KEYS,
    Effect.WRITE,
    example={"key_id": _ID},
)
REVOKE_KEY = Operation(
    "key.revoke", "Revoke an API key", m.KeyRef, m.Key, KEYS, Effect.DESTRUCTIVE, example={"key_id": _ID}
)
REVOKE_TOKEN = Operation(
    "token.revoke", "Refuse a token from now on", m.RevokeToken, m.Removed, USERS, Effect.WRITE,
    example={"token_id": _ID},
)  # fmt: skip
SHOW_IDENTITY = Operation("identity.show", "Say who I am", m.WhoAmI, m.Identity, "read:identity")
