"""What A2A 1.0.1 demands, in our own words: musts.tsv.

`binds` says whom: the server, a client, or somebody else. `because` is the reason why a demand is not the server's, or
the fact that makes it an empty one here, which its vector then shows.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

_TABLE = Path(__file__).with_name("musts.tsv")


@dataclass(frozen=True)
class Must:
    """One demand of the specification."""

    id: str
    section: str
    binds: str
    says: str
    because: str


def read_musts() -> list[Must]:
    """All of them, in the order of the specification."""
    with _TABLE.open(newline="") as table:
        return [Must(**row) for row in csv.DictReader(table, delimiter="\t")]
