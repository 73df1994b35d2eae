"""One stream of notifications: everything on it carries the id of the request that opened it."""

from typing import Any, Final, Literal, Protocol

from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import (
    Notification,
    NotificationParams,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    ResourceUpdatedNotificationParams,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsAcknowledgedNotificationParams,
    ToolListChangedNotification,
)

from dragoman.doors.mcp.methods import Context
from dragoman.doors.mcp.wire import Json

LISTS: Final = {
    "tools": ToolListChangedNotification,
    "prompts": PromptListChangedNotification,
    "resources": ResourceListChangedNotification,
}


class TaskNotification(Notification[dict[str, Any], Literal["notifications/tasks"]]):
    """How a task stands, of the tasks extension."""

    method: Literal["notifications/tasks"] = "notifications/tasks"
    params: dict[str, Any]


class Told(Protocol):
    """Where changes are told."""

    async def list_changed(self, name: str) -> None:
        """One of the `LISTS` is another now."""
        ...

    async def updated(self, uri: str) -> None:
        """What stands at an address is another now."""
        ...


class Stream:
    """Says things to the client of a request that is not answered yet."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self.meta: Json = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}

    async def acknowledge(self, honoured: Json) -> None:
        """Say first what will be told."""
        params = SubscriptionsAcknowledgedNotificationParams(
            notifications=SubscriptionFilter.model_validate(honoured), _meta=self.meta
        )
        await self._send(SubscriptionsAcknowledgedNotification(params=params))

    async def list_changed(self, name: str) -> None:
        """One of the `LISTS` is another now."""
        await self._send(LISTS[name](params=NotificationParams(_meta=self.meta)))

    async def updated(self, uri: str) -> None:
        """What stands at an address is another now."""
        await self._send(
            ResourceUpdatedNotification(params=ResourceUpdatedNotificationParams(uri=uri, _meta=self.meta))
        )

    async def task(self, task: Json) -> None:
        """How a task stands now."""
        await self._send(TaskNotification(params={**task, "_meta": self.meta}))

    async def _send(self, notification: Any) -> None:
        await self._ctx.session.send_notification(notification, related_request_id=self._ctx.request_id)
