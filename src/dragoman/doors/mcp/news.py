"""What a client hears of work while it waits for its result: how far it is, and lines of its log."""

from collections.abc import Awaitable, Callable

from mcp_types import LOG_LEVEL_META_KEY, LoggingMessageNotification, LoggingMessageNotificationParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from dragoman import kit
from dragoman.doors.mcp.exchange import find_exchange
from dragoman.doors.mcp.methods import Context, listener
from dragoman.services.tasks.events import Event, LogEvent, ProgressEvent

Tell = Callable[[Event], Awaitable[None]]


def find_news(ctx: Context) -> Tell | None:
    """Who hears what happens to the task of a request, of what its client has asked to hear; None when of nothing."""
    progress, least = listener(ctx), _level(ctx)
    if progress is None and least is None:
        return None

    async def tell(event: Event) -> None:
        match event:
            case ProgressEvent(text, percent) if progress is not None:
                await progress(text, percent)
            case LogEvent(text, level) if least is not None and _rank(level) >= _rank(least):
                params = LoggingMessageNotificationParams(level=level, data=text)
                told = LoggingMessageNotification(params=params)
                await ctx.session.send_notification(told, related_request_id=ctx.request_id)
            case _:
                pass

    return tell


def _level(ctx: Context) -> kit.LogLevel | None:
    """From which level on the client wants to see logs: of its session, or in the later era with the request."""
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        asked = dict(ctx.meta or {}).get(LOG_LEVEL_META_KEY)
        return next((level for level in kit.LOG_LEVELS if level == asked), None)
    exchange = find_exchange(ctx)
    return exchange.noted.level if exchange is not None else None


def _rank(level: kit.LogLevel) -> int:
    return kit.LOG_LEVELS.index(level)
