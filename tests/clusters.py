"""An empty PostgreSQL cluster, as a first start makes it: made once, copied for every server of a run."""

import asyncio
import atexit
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from dragoman.infra.embedded import EmbeddedServices
from dragoman.infra.embedded.layout import make_data_dir


def lay_cluster(data_dir: Path) -> None:
    """Spare a server that starts here for the first time the seconds of initdb; what it does after that is its own."""
    template = _template()
    make_data_dir(data_dir)
    subprocess.run(["cp", "-a", str(template), str(data_dir / "postgres")], check=True)


@cache
def _template() -> Path:
    parent = Path(tempfile.mkdtemp(prefix="dgt-", dir="/tmp"))
    parent.chmod(0o755)
    atexit.register(shutil.rmtree, parent, ignore_errors=True)
    # By a program of its own: the caller may be within a loop, and embedded servers die with their thread.
    subprocess.run([sys.executable, __file__, str(parent / "d")], check=True)
    return parent / "d" / "postgres"


async def _make(data_dir: Path) -> None:
    services = EmbeddedServices(data_dir, postgres=True, valkey=False)
    await services.start()
    await services.stop()


if __name__ == "__main__":
    asyncio.run(_make(Path(sys.argv[1])))
