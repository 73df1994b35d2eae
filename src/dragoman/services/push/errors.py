"""What can go wrong with push configurations."""

from dragoman.errors import Conflict, NotFound


class PushConfigNotFound(NotFound):
    """The task has no such configuration."""

    def __init__(self, config_id: str) -> None:
        super().__init__("push notification config", config_id[:200])


class TooManyPushConfigs(Conflict):
    """The task has as many configurations as it may."""

    def __init__(self, *, limit: int) -> None:
        super().__init__(
            f"a task has at most {limit} push notification configs", reason="TOO_MANY_PUSH_CONFIGS", limit=limit
        )
