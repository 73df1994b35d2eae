"""Rules of users: invited by an admin, let in by a code, never given more than the giver has."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol
from uuid import UUID

from dragoman.context import Caller, Role
from dragoman.errors import Forbidden, InvalidInput, NotFound, Stale
from dragoman.infra.auth.secrets import hash_secret, new_invitation
from dragoman.infra.auth.tokens import Grant, Issuer
from dragoman.infra.db import UniqueViolated, scope_of
from dragoman.operations import Page, page
from dragoman.services.tenancy.errors import EmailTaken, RoleTooHigh, ScopeTooWide, WrongState
from dragoman.services.tenancy.models import (
    AcceptedInvitation,
    AcceptInvitation,
    Identity,
    InvitedUser,
    InviteUser,
    ListUsers,
    Removed,
    RevokeToken,
    UpdateUser,
    User,
    UserRef,
    UserStatus,
    WhoAmI,
)
from dragoman.services.tenancy.revocations import Revocations
from dragoman.services.tenancy.store import TenancyStore

INVITATION_DAYS = 7
# Who may hand out which role; an agent or a key never makes people.
_MAY_GIVE = {Role.SUPER_ADMIN: set(Role), Role.ORG_ADMIN: set(Role) - {Role.SUPER_ADMIN}}


def check_role(caller: Caller, role: Role) -> None:
    """Refuse to hand out a role that the caller may not give.

    Raises:
        RoleTooHigh: it is more than the caller has.
    """
    if not any(role in _MAY_GIVE.get(own, {own}) for own in caller.roles):
        raise RoleTooHigh(role.value)


class ShutOut(Protocol):
    """Hears of principals that are disabled or deleted."""

    async def __call__(self, caller: Caller, subject: str, reason: str, /) -> None:
        """End what others may do in their name, in the unit that shuts them out."""
        ...


def check_unlimited(caller: Caller) -> None:
    """Refuse to hand out a role with a credential that is limited to scopes: whoever has the role may do more.

    Raises:
        ScopeTooWide: the caller's credential lists scopes.
    """
    if caller.scopes is not None:
        raise ScopeTooWide(sorted(caller.scopes))


class UserService:
    """Keeps the people of a tenant."""

    def __init__(
        self,
        store: TenancyStore,
        revocations: Revocations,
        *,
        pepper: bytes,
        issuer: Issuer | None,
        new_id: Callable[[], UUID],
        shut_out: ShutOut,
    ) -> None:
        self._store = store
        self._revocations = revocations
        self._pepper = pepper
        self._issuer = issuer
        self._new_id = new_id
        self._shut_out = shut_out

    async def invite(self, caller: Caller, new: InviteUser) -> InvitedUser:
        """Let a person in, once they show the code that this returns.

        Raises:
            RoleTooHigh: the role is more than the caller has.
            ScopeTooWide: the caller's own credential is limited to scopes.
            EmailTaken: the tenant has a user with this address or subject.
        """
        check_role(caller, new.role)
        check_unlimited(caller)
        code = new_invitation()
        subject = new.subject or new.email
        try:
            row = await self._store.add_user(
                scope_of(caller),
                self._new_id(),
                subject,
                new.email,
                new.name,
                new.role.value,
                hash_secret(code, self._pepper),
                datetime.now(UTC) + timedelta(days=INVITATION_DAYS),
            )
        except UniqueViolated as error:
            by_subject = error.constraint == "users_subject_key"
            raise EmailTaken("subject" if by_subject else "email", subject if by_subject else new.email) from error
        # Someone of the same name may have been here before and been shut out.
        await self._revocations.readmit(caller, caller.tenant, f"user:{subject}")
        return InvitedUser.model_validate({**row, "invitation": code})

    async def accept(self, caller: Caller, given: AcceptInvitation) -> AcceptedInvitation:
        """Come in; the caller is the invitation itself, which is used up by this.

        Raises:
            Forbidden: the caller is anything but an invitation, however much it may do.
        """
        if caller.credential != f"invitation:{caller.subject}":
            raise Forbidden("an invitation is accepted with the invitation as the credential")
        row = await self._store.accept_user(scope_of(caller), UUID(caller.subject), given.name)
        if row is None:
            raise WrongState("invitation", "used", "an open one")
        user = User.model_validate(row)
        token = None
        if self._issuer is not None:
            token = self._issuer.mint(Grant(tenant=caller.tenant_slug, subject=user.subject, roles=[user.role.value]))
        return AcceptedInvitation(user=user, token=token)

    async def list(self, caller: Caller, wanted: ListUsers) -> Page[User]:
        """The caller's tenant's users, newest first."""
        rows = await self._store.list_users(
            scope_of(caller),
            wanted.limit + 1,
            wanted.cursor,
            wanted.role and wanted.role.value,
            wanted.status and wanted.status.value,
        )
        return page([User.model_validate(row) for row in rows], wanted.limit)

    async def get(self, caller: Caller, ref: UserRef) -> User:
        """One user.

        Raises:
            NotFound: there is none, or it belongs to another tenant.
        """
        row = await self._store.find_user(scope_of(caller), ref.user_id)
        if row is None:
            raise NotFound("user", ref.user_id)
        return User.model_validate(row)

    async def update(self, caller: Caller, change: UpdateUser) -> User:
        """Rename, or give another role; a new role ends every session that still claims the old one.

        Raises:
            RoleTooHigh: the role, or that of the user, is more than the caller has.
            ScopeTooWide: a role is given, and the caller's own credential is limited to scopes.
            Stale: the user is no longer at the expected version.
        """
        user = await self.get(caller, change)
        check_role(caller, user.role)
        if change.role is not None:
            check_role(caller, change.role)
            check_unlimited(caller)
        row = await self._store.change_user(
            scope_of(caller),
            user.id,
            name=change.name,
            role=change.role and change.role.value,
            version=change.expected_version,
        )
        if row is None:
            raise Stale("user", expected=change.expected_version or 0, current=user.version)
        if change.role is not None and change.role is not user.role:
            await self._revocations.revoke(
                caller, caller.tenant, f"user:{user.subject}", reason="role changed", until_now=True
            )
        return User.model_validate(row)

    async def disable(self, caller: Caller, ref: UserRef) -> User:
        """Refuse all their credentials from now on."""
        user = await self._other(caller, ref)
        # The user first, the revocation second, here and everywhere: two who lock them crosswise wait for each other.
        disabled = await self._move(caller, user, UserStatus.DISABLED)
        await self._revocations.revoke(caller, caller.tenant, f"user:{user.subject}", reason="disabled")
        await self._shut_out(caller, user.subject, "disabled")
        return disabled

    async def enable(self, caller: Caller, ref: UserRef) -> User:
        """Let them in again."""
        user = await self._other(caller, ref)
        if user.status is not UserStatus.DISABLED:
            raise WrongState("user", user.status.value, UserStatus.DISABLED.value)
        enabled = await self._move(caller, user, UserStatus.ACTIVE)
        await self._revocations.readmit(caller, caller.tenant, f"user:{user.subject}")
        return enabled

    async def delete(self, caller: Caller, ref: UserRef) -> Removed:
        """Remove a person; what they did stays in the audit trail."""
        user = await self._other(caller, ref)
        if await self._store.delete_user(scope_of(caller), user.id) is None:
            raise NotFound("user", ref.user_id)
        await self._revocations.revoke(caller, caller.tenant, f"user:{user.subject}", reason="deleted")
        await self._shut_out(caller, user.subject, "deleted")
        return Removed(id=str(user.id))

    async def revoke_token(self, caller: Caller, given: RevokeToken) -> Removed:
        """Refuse one token for good, or everything that a principal holds until now.

        Raises:
            RoleTooHigh: the principal, or the key of this id, is more than the caller.
            TooManyRevocations: the tenant has revoked as many as it may for now.
        """
        if (given.token_id is None) == (given.subject is None):
            raise InvalidInput.of("token_id", "give either token_id or subject")
        await self._check_bearer(caller, given)
        ref = f"cred:{given.token_id}" if given.token_id else f"user:{given.subject}"
        await self._revocations.check_room(caller, ref)
        await self._revocations.revoke(caller, caller.tenant, ref, reason="revoked", until_now=given.token_id is None)
        return Removed(id=ref)

    async def whoami(self, caller: Caller, _: WhoAmI) -> Identity:
        """The caller as the server sees it."""
        return Identity(
            tenant_id=caller.tenant,
            tenant=caller.tenant_slug,
            subject=caller.subject,
            type=caller.type,
            person=caller.is_person,
            roles=sorted(caller.roles),
            scopes=sorted(caller.scopes) if caller.scopes is not None else None,
        )

    async def _check_bearer(self, caller: Caller, given: RevokeToken) -> None:
        """A token does not say here whose it is; a user and a key do."""
        row = None
        if given.subject is not None:
            row = await self._store.find_subject(scope_of(caller), given.subject)
        elif (key_id := _find_id(given.token_id or "")) is not None:
            row = await self._store.find_key(scope_of(caller), key_id)
        if row is not None:
            check_role(caller, Role(row["role"]))

    async def _other(self, caller: Caller, ref: UserRef) -> User:
        user = await self.get(caller, ref)
        check_role(caller, user.role)
        if user.subject == caller.subject:
            raise WrongState("user", "you", "someone else")
        return user

    async def _move(self, caller: Caller, user: User, status: UserStatus) -> User:
        row = await self._store.change_user(scope_of(caller), user.id, status=status.value)
        if row is None:
            raise NotFound("user", user.id)
        return User.model_validate(row)


def _find_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
