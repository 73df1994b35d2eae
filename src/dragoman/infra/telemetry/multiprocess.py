"""What must happen before prometheus_client is imported, in a module that does not import it.

prometheus_client decides once, at its import, whether its values live in memory or in files that processes share.
"""

import os
from pathlib import Path
from typing import Final

VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"


def prepare_multiprocess(directory: Path) -> None:
    """Make the children of this process share their metrics through files in `directory`, and empty it.

    Only the parent calls it, before it starts a child: a child that called it would delete the counts of the others.
    Children that are spawned read the variable afresh; children that are forked need it set before the parent
    imports prometheus_client (`Metrics` refuses to start when that went wrong).
    """
    directory.mkdir(parents=True, exist_ok=True)
    for stale in directory.glob("*.db"):
        stale.unlink(missing_ok=True)
    os.environ[VARIABLE] = str(directory)
