"""Tenants, the people in them and the keys of their programs."""

import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, Field

from dragoman.context import PrincipalType, Role
from dragoman.operations import Input, ListInput, Output
from dragoman.text import Email, Name, Slug, Subject

_UUID_SHAPED = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def _not_an_id(slug: str) -> str:
    # A tenant can be named by slug or by id: one tenant's slug must not be another one's id.
    if _UUID_SHAPED.match(slug):
        raise ValueError("must not look like an id")
    return slug


def _no_key(subject: str) -> str:
    # Disabling a user of that name would shut out the key, whoever made it.
    if subject.startswith("key:"):
        raise ValueError("must not begin with key:, which names the principals of API keys")
    return subject


TenantSlug = Annotated[Slug, AfterValidator(_not_an_id)]
Scopes = Annotated[
    list[Annotated[str, Field(pattern=r"^[a-z]+:[a-z]+$")]],
    Field(max_length=50, description="What the credential may do, such as `read:costs`; unset: all that its role may."),
]


class Plan(StrEnum):
    """What a tenant pays for; it sets the tenant's limits."""

    FREE = "free"
    STANDARD = "standard"
    ENTERPRISE = "enterprise"


class TenantStatus(StrEnum):
    """A suspended tenant is refused at the door and keeps everything; a deleted one is gone for good."""

    ACTIVE = "active"
    SUSPENDED = "suspended"
    DELETED = "deleted"


class UserStatus(StrEnum):
    """An invited user has not come yet; a disabled one may not."""

    INVITED = "invited"
    ACTIVE = "active"
    DISABLED = "disabled"


class Versioned(Output):
    """Something that changes; `version` is its ETag."""

    version: int


class Tenant(Versioned):
    """An organisation whose rows nobody else sees."""

    id: UUID
    slug: str
    name: str
    plan: Plan
    status: TenantStatus
    settings: dict[str, Any]
    created_at: datetime
    updated_at: datetime


class User(Versioned):
    """A person in a tenant; `subject` is what their tokens call them."""

    id: UUID
    subject: str
    email: str
    name: str
    role: Role
    status: UserStatus
    created_at: datetime
    updated_at: datetime


class InvitedUser(User):
    """A user who was just invited, with the code to hand over; it is shown this once."""

    invitation: str | None
    invitation_expires_at: datetime | None

    def without_secrets(self) -> "InvitedUser":
        """All but the code."""
        return self.model_copy(update={"invitation": None})


class AcceptedInvitation(Output):
    """A user who came, with a first token where this installation issues tokens itself."""

    user: User
    token: str | None

    def without_secrets(self) -> "AcceptedInvitation":
        """All but the token."""
        return self.model_copy(update={"token": None})


class Key(Output):
    """An API key without its secret; `hint` is how it begins and ends."""

    id: UUID
    name: str
    subject: str
    principal_type: PrincipalType
    role: Role
    scopes: list[str] | None
    hint: str
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    replaced_by: UUID | None


class NewKey(Key):
    """A key that was just made; the secret is shown this once."""

    secret: str | None

    def without_secrets(self) -> "NewKey":
        """All but the secret."""
        return self.model_copy(update={"secret": None})


class Identity(Output):
    """Who the server takes the caller to be."""

    tenant_id: UUID
    tenant: str
    subject: str
    type: PrincipalType
    person: bool = Field(description="Whether the credentials prove a person, who may decide for people and sign.")
    roles: list[Role]
    scopes: list[str] | None


class Removed(Output):
    """What was removed."""

    id: str
    success: bool = True


class CreateTenant(Input):
    """A new tenant."""

    name: Name = Field(description="What people call it.", examples=["Acme Corporation"])
    slug: TenantSlug = Field(description="Its short name in tokens and commands; never reused.", examples=["acme"])
    plan: Plan = Field(Plan.STANDARD, description="Sets its limits.")
    settings: dict[str, Any] = Field(default_factory=dict[str, Any], description="Free-form settings of the tenant.")


class ListTenants(ListInput):
    """Which tenants to list; deleted ones are listed only when asked for."""

    status: TenantStatus | None = Field(None, description="Only tenants in this state.")
    plan: Plan | None = Field(None, description="Only tenants on this plan.")


class TenantRef(Input):
    """One tenant, by id or slug."""

    tenant: str = Field(min_length=2, max_length=63, description="Id or slug.", examples=["acme"])


class UpdateTenant(TenantRef):
    """What to change; what is left out stays."""

    name: Name | None = Field(None, description="A new name.")
    plan: Plan | None = Field(None, description="A new plan; the platform's business, not the tenant's.")
    settings: dict[str, Any] | None = Field(None, description="Replaces the settings.")
    expected_version: int | None = Field(
        None, ge=1, le=2**31 - 1, description="Refuse when the tenant has moved on from this version."
    )


class InviteUser(Input):
    """A person to let in."""

    email: Email = Field(description="Where they can be reached; one user per address.", examples=["ada@example.com"])
    name: Name = Field(description="What they are called.", examples=["Ada Lovelace"])
    role: Role = Field(Role.VIEWER, description="What they will be.")
    subject: Annotated[Subject, AfterValidator(_no_key)] | None = Field(
        None, description="What their tokens call them; the address when unset."
    )


class ListUsers(ListInput):
    """Which users to list."""

    role: Role | None = Field(None, description="Only users with this role.")
    status: UserStatus | None = Field(None, description="Only users in this state.")


class UserRef(Input):
    """One user of the caller's tenant."""

    user_id: UUID = Field(description="The user's id.")


class UpdateUser(UserRef):
    """What to change; what is left out stays. A new role ends the sessions of the old one."""

    name: Name | None = Field(None, description="A new name.")
    role: Role | None = Field(None, description="A new role.")
    expected_version: int | None = Field(
        None, ge=1, le=2**31 - 1, description="Refuse when the user has moved on from this version."
    )


class AcceptInvitation(Input):
    """The invitation itself is the credential; a name may be corrected on the way in."""

    name: Name | None = Field(None, description="What the user wants to be called.")


class CreateKey(Input):
    """A key for a program."""

    name: Name = Field(description="What the key is for.", examples=["nightly report"])
    subject: Name | None = Field(None, description="The principal it speaks as; `key:<name>` when unset.")
    principal_type: PrincipalType = Field(
        PrincipalType.SERVICE,
        description="What the key speaks as. No key counts as a person: none decides what is for people, or signs.",
    )
    role: Role = Field(Role.AGENT, description="What the holder is; at most what the maker is.")
    scopes: Scopes | None = None
    expires_at: AwareDatetime | None = Field(None, description="When it stops working, RFC 3339 with an offset.")


class ListKeys(ListInput):
    """Which keys to list."""

    include_revoked: bool = Field(default=False, description="Also keys that no longer work.")


class KeyRef(Input):
    """One key of the caller's tenant."""

    key_id: UUID = Field(description="The key's id.")


class RotateKey(KeyRef):
    """A key to replace by a fresh one with the same rights."""

    grace_s: int = Field(0, ge=0, le=86_400 * 7, description="How long the old secret goes on working.")


class RevokeToken(Input):
    """A token to refuse from now on: by its id, or all that a principal holds now."""

    token_id: str | None = Field(
        None, min_length=1, max_length=200, pattern=r"^[\x20-\x7e]+$", description="The token's `jti`."
    )
    subject: Subject | None = Field(None, description="Every credential issued to this principal until now.")


class WhoAmI(Input):
    """Nothing: the credentials say it."""
