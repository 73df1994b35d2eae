"""The table of expected answers, `matrix.tsv`: a line for each operation and passage, a column for each caller."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PATH: Final = Path(__file__).with_name("matrix.tsv")
ROLES: Final = ("super_admin", "org_admin", "operator", "analyst", "viewer", "agent")
# A key of the role org_admin that has the permission of the line and no other; one that has another; an invitation; a
# one-time link to sign.
LIMITED: Final = ("scoped_key", "other_key", "invitation", "link")
COLUMNS: Final = ("name", "permission", "resource", "answer", *ROLES, *LIMITED)


@dataclass(frozen=True, slots=True)
class Line:
    """What is expected of one operation or passage.

    `resource` is `field=kind` where a field names a resource, `list=kind` where resources are listed, else empty.
    `answer` is the code that a caller gets who may, where the state of the resource stands in the way; else empty.
    """

    name: str
    permission: str
    resource: str
    answer: str
    cells: dict[str, str]

    @property
    def field(self) -> str:
        """The field that names the resource, or `list`."""
        return self.resource.partition("=")[0]

    @property
    def kind(self) -> str:
        """What sort of resource it is about."""
        return self.resource.partition("=")[2]


def read_table() -> dict[str, Line]:
    """Return the lines by the names of their operations.

    Raises:
        ValueError: a line is not as long as the head, or is there twice.
    """
    lines: dict[str, Line] = {}
    for number, columns in _rows():
        if len(columns) != len(COLUMNS):
            raise ValueError(f"{PATH.name}:{number}: expected {len(COLUMNS)} columns, not {len(columns)}")
        name, permission, resource, answer, *cells = columns
        if name in lines:
            raise ValueError(f"{PATH.name}:{number}: {name} is there twice")
        given: dict[str, str] = dict(zip((*ROLES, *LIMITED), cells, strict=True))
        lines[name] = Line(name, permission, resource.strip("."), answer.strip("."), given)
    return lines


def _rows() -> Iterator[tuple[int, list[str]]]:
    text = PATH.read_text(encoding="utf-8")
    rows = [
        (number, line.split("\t"))
        for number, line in enumerate(text.splitlines(), start=1)
        if line and not line.startswith("#")
    ]
    if tuple(rows[0][1]) != COLUMNS:
        raise ValueError(f"{PATH.name}: the head must be {', '.join(COLUMNS)}")
    yield from rows[1:]
