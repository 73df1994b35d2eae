"""What can go wrong with tenants, users and keys, beyond the general kinds."""

from dragoman.errors import Conflict, Forbidden


class SlugTaken(Conflict):
    """Another tenant has, or once had, this slug."""

    def __init__(self, slug: str) -> None:
        super().__init__(f"slug {slug!r} is taken", field="slug", reason="SLUG_TAKEN")


class EmailTaken(Conflict):
    """Another user of the tenant has this address or subject."""

    def __init__(self, field: str, value: str) -> None:
        super().__init__(f"{field} {value!r} is taken", field=field, reason="USER_EXISTS")


class WrongState(Conflict):
    """The thing is in a state from which this cannot be done."""

    def __init__(self, noun: str, state: str, wanted: str) -> None:
        super().__init__(f"the {noun} is {state}; this needs {wanted}", state=state, reason="WRONG_STATE")


class OwnTenant(Conflict):
    """A caller cannot take away the tenant it stands in."""

    def __init__(self) -> None:
        super().__init__("you cannot suspend or delete the tenant that your credentials belong to", reason="OWN_TENANT")


class TooManyRevocations(Conflict):
    """The tenant has revoked as many tokens, or principals, as it may within the longest life of a token."""

    def __init__(self, most: int) -> None:
        super().__init__(
            f"the tenant has {most} revocations, which is the most: revoke the principal instead of its tokens, "
            "disable the user, or wait until the earliest ones have expired",
            most=most,
            reason="TOO_MANY_REVOCATIONS",
        )


class RoleTooHigh(Forbidden):
    """Nobody hands out more than they have."""

    def __init__(self, role: str) -> None:
        super().__init__(f"you may not give the role {role!r}", role=role, reason="ROLE_TOO_HIGH")


class ScopeTooWide(Forbidden):
    """A limited credential cannot make a less limited one."""

    def __init__(self, scopes: list[str]) -> None:
        super().__init__(
            "this credential is limited to scopes and cannot hand out more than it may do itself",
            scopes=scopes,
            reason="SCOPE_TOO_WIDE",
        )
