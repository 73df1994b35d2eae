"""What can go wrong with subscriptions."""

from dragoman.errors import Conflict


class TooManySubscriptions(Conflict):
    """The tenant has as many subscriptions as it may."""

    def __init__(self, *, limit: int) -> None:
        super().__init__(
            f"a tenant has at most {limit} subscriptions: remove one", reason="TOO_MANY_SUBSCRIPTIONS", limit=limit
        )


class NotActive(Conflict):
    """Nothing is delivered for this subscription."""

    def __init__(self, state: str) -> None:
        super().__init__(
            f"the subscription is {state}: make it active first, with `active` true", state=state, reason="WRONG_STATE"
        )
