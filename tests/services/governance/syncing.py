"""What tests arrange that bring policies from a remote."""

from typing import Any

import httpx

from tests.services.approvals.asking import Office
from tests.services.knowledge.remotes import Remote, item

Json = dict[str, Any]


def policy(title: str, **fields: str) -> str:
    """A document of a policy that is in force."""
    return item(title, type="policy", **fields)


def sync(
    office: Office, remote: Remote | None = None, *, name: str = "ann", role: str = "operator", **given: Any
) -> httpx.Response:
    """Merge a remote, or that of before."""
    given |= {"remote": str(remote.path)} if remote is not None else {}
    return office.person(name, role).post("/api/knowledge/sync", json=given)
