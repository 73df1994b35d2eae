"""Client certificates for registrations, each another one."""

import tempfile
from functools import cache
from itertools import count
from pathlib import Path

from dragoman.infra.private_authority import PrivateAuthority

_NUMBERS = count(1)


def client_certificate() -> str:
    """A certificate that no other registration has, in PEM."""
    return _authority().issue(f"agent-{next(_NUMBERS)}", days=1).certificate.read_text()


@cache
def _authority() -> PrivateAuthority:
    made = PrivateAuthority(Path(tempfile.mkdtemp(prefix="dgt-ca-")) / "ca")
    made.create("Agents")
    return made
