"""Reads billing exports in a process that is killed when it takes too much."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final

from dragoman.infra.children import ChildDied, Children, ChildTimedOut, Limits
from dragoman_costs.imports.errors import ImportRefused

Json = dict[str, Any]
MOST_BAD_ROWS: Final = 1_000
_MODULE: Final = "dragoman_costs.imports.child"
# Address space is more than memory: DuckDB reserves what it may need.
_SPACE_BYTES: Final = 3_221_225_472
_THREADS: Final = 2
# The unpacked file, the rows for PostgreSQL, and what does not fit into memory.
_WORK_FACTOR: Final = 4
_WORK_BYTES: Final = 1_073_741_824


@dataclass(frozen=True, slots=True)
class Survey:
    """What a look at every row found. `reading` is for the reader: how it goes on with the file."""

    reading: Json
    sha256: str
    rows: int
    bad_count: int
    bad: list[Json]
    periods: dict[date, int]
    exact: bool
    extra: dict[str, str]


class ExportReader:
    """Reads files, a few at a time, one of each tenant."""

    def __init__(self, *, most_bytes: int, memory_bytes: int, timeout_s: int) -> None:
        limits = Limits(timeout_s, cpu_s=_THREADS * timeout_s, memory_bytes=memory_bytes + _SPACE_BYTES)
        self._children = Children(_MODULE, size=2, share=1, limits=limits)
        self._bounds: Json = {
            "most_bytes": most_bytes,
            "most_work_bytes": _WORK_FACTOR * most_bytes + _WORK_BYTES,
            "most_bad": MOST_BAD_ROWS,
            "memory_bytes": memory_bytes,
            "threads": _THREADS,
        }

    async def stop(self) -> None:
        """End the idle processes."""
        await self._children.stop()

    async def survey(self, tenant: Hashable, file: Path, work: Path) -> Survey:
        """Look at every row of a file; `work` is a directory of its own.

        Raises:
            ImportRefused: it cannot be read, or not within the limits.
        """
        found = await self._ask(tenant, {"do": "survey", "file": str(file), "work": str(work)})
        return Survey(
            reading=found["reading"], sha256=found["sha256"], rows=found["rows"], bad_count=found["bad_count"],
            bad=found["bad"], periods={date.fromisoformat(period): rows for period, rows in found["periods"]},
            exact=found["exact"], extra=found["extra"],
        )  # fmt: skip

    async def write(
        self, tenant: Hashable, survey: Survey, periods: Sequence[date], *, work: Path, into: Path
    ) -> tuple[list[Path], dict[str, Path]]:
        """Write the rows of some periods for PostgreSQL, and their sums where these are exact; return the files.

        Raises:
            ImportRefused: it cannot be done within the limits.
        """
        request: Json = {
            "do": "write", "reading": survey.reading, "work": str(work), "into": str(into), "exact": survey.exact,
            "periods": [period.isoformat() for period in periods],
        }  # fmt: skip
        written = await self._ask(tenant, request)
        return list(map(Path, written["rows"])), {name: Path(file) for name, file in written["sums"].items()}

    async def inspect(self, tenant: Hashable, file: Path, work: Path) -> list[Json]:
        """Return whose bills are in a file.

        Raises:
            ImportRefused: it cannot be read, or not within the limits.
        """
        return (await self._ask(tenant, {"do": "inspect", "file": str(file), "work": str(work)}))["accounts"]

    async def _ask(self, tenant: Hashable, request: Json) -> Json:
        try:
            answer = await self._children.ask(tenant, self._bounds | request)
        except ChildTimedOut:
            raise ImportRefused("TOO_LARGE", "reading it takes longer than an import may take") from None
        except ChildDied:
            raise ImportRefused(
                "TOO_LARGE", "reading it takes more memory or processor time than an import may use"
            ) from None
        if (reason := answer.get("refused")) is not None:
            raise ImportRefused(reason, answer["message"], columns=answer.get("columns", ()))
        return answer
