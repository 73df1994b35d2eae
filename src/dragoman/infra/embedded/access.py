"""Who may connect to the embedded PostgreSQL: the kernel says who asks, and we name who is let in."""

import os
import pwd
import secrets
from pathlib import Path

from dragoman.infra.embedded.account import Account
from dragoman.infra.embedded.errors import EmbeddedError

HBA = """\
# Written at every start. The kernel tells PostgreSQL which user connects; pg_ident.conf says who is let in.
local all all peer map=dragoman
"""


def write_access(directory: Path, account: Account) -> None:
    """Let ourselves and root in, whatever a cluster of an earlier release said; other users are refused.

    Raises:
        EmbeddedError: our user has no name, by which PostgreSQL would know it.
        OSError: the files cannot be written.
    """
    lines = "".join(f'dragoman "{name}" all\n' for name in sorted({_name_of(0), _name_of(os.geteuid())}))
    _replace(directory / "pg_hba.conf", HBA, account)
    _replace(directory / "pg_ident.conf", lines, account)


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        raise EmbeddedError(
            f"user {uid} has no name, by which PostgreSQL tells users apart; add it to /etc/passwd, "
            "or set DRAGOMAN_DATABASE_URL and DRAGOMAN_REDIS_URL"
        ) from None


def _replace(path: Path, text: str, account: Account) -> None:
    """Write a file anew beside the old one: what stands at the path may be a link that leads elsewhere."""
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as file:
        if account.dropped:
            os.fchown(file.fileno(), account.uid, account.gid)
        file.write(text)
    fresh.replace(path)
