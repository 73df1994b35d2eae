"""Where the servers of tests keep their data, and an empty PostgreSQL cluster as a first start makes it.

The cluster is made once, and copied for every server of a run.
"""

import asyncio
import atexit
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from dragoman.infra.embedded import EmbeddedServices
from dragoman.infra.embedded.account import Account
from dragoman.infra.embedded.layout import let_pass, make_data_dir


def data_dir() -> Path:
    """A short path that the embedded servers' user can enter (pytest's own temporary directories are closed to it)."""
    parent = Path(tempfile.mkdtemp(prefix="dgt-", dir="/tmp"))
    parent.chmod(0o755)
    return parent / "d"


def lay_cluster(at: Path) -> None:
    """Spare a server that starts here for the first time the seconds of initdb; what it does after that is its own."""
    template = _template()
    make_data_dir(at)
    # As after a first start: the directory is a server's, whose user may pass.
    (at / "lock").touch(mode=0o600)
    subprocess.run(["cp", "-a", str(template), str(at / "postgres")], check=True)
    let_pass(at, Account.for_services(at / "postgres"))


@cache
def _template() -> Path:
    made = data_dir()
    atexit.register(shutil.rmtree, made.parent, ignore_errors=True)
    # By a program of its own: the caller may be within a loop, and embedded servers die with their thread.
    subprocess.run([sys.executable, __file__, str(made)], check=True)
    return made / "postgres"


async def _make(at: Path) -> None:
    services = EmbeddedServices(at, postgres=True, valkey=False)
    await services.start()
    await services.stop()


if __name__ == "__main__":
    asyncio.run(_make(Path(sys.argv[1])))
