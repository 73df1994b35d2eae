"""What providers announce: a new billing export has its account synced, so that its costs are there within minutes."""

from collections.abc import Sequence
from typing import Any, Final, cast
from uuid import UUID

from dragoman.context import Caller
from dragoman.errors import NotFound
from dragoman.plugin import GateRun
from dragoman.services.inbox.ports import WebhookEvent
from dragoman_costs.accounts.models import Account, AccountStatus

_PAGE: Final = 200


class Announcements:
    """Handles `cost.export_ready`: the accounts that the export is for are synced."""

    def __init__(self, run: GateRun) -> None:
        self._run = run

    async def export_ready(self, caller: Caller, event: WebhookEvent) -> None:
        """Sync the account of the source of an event; without one, the accounts with exports where the file lies.

        Raises:
            NotFound: there is no such account.
        """
        objects: Any = event.data.get("objects")
        listed = cast("list[Any]", objects) if isinstance(objects, list) else []
        urls = [str(cast("dict[str, Any]", one).get("url", "")) for one in listed if isinstance(one, dict)]
        found = [account for account in await self._accounts(caller) if _concerns(account, event.account, urls)]
        if not found:
            raise NotFound("cloud account", event.account or ", ".join(urls)[:200])
        for account in found:
            key = f"{event.key}:{account.id}"
            await self._run("cloud_account.sync", caller, {"account_id": str(account.id)}, idempotency_key=key)

    async def _accounts(self, caller: Caller) -> Sequence[Account]:
        """Return the accounts of the tenant that are synced."""
        found: list[Account] = []
        cursor: str | None = None
        while True:
            asked: dict[str, Any] = {"limit": _PAGE} | ({"cursor": cursor} if cursor else {})
            page = await self._run("cloud_account.list", caller, asked)
            found += [account for account in page.items if account.status is not AccountStatus.DISCONNECTED]
            if (cursor := page.next_cursor) is None:
                return found


def _concerns(account: Account, named: str | None, urls: Sequence[str]) -> bool:
    if named is not None:
        return named == account.identifier or _is(account.id, named)
    place = account.config.export_url
    return place is not None and any(url.startswith(place) for url in urls)


def _is(account_id: UUID, named: str) -> bool:
    try:
        return UUID(named) == account_id
    except ValueError:
        return False
