"""The worker `costs-import`: reads a billing export and shows its periods, each at once."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final, cast
from uuid import UUID

from dragoman.context import Caller, report_progress
from dragoman.errors import DragomanError, NotFound
from dragoman.infra.db import Scope, scope_of
from dragoman.services.workers.protocol import Assignment, Capability, Evidence, EvidenceKind, Performed
from dragoman_costs.imports.endings import ImportEndings
from dragoman_costs.imports.errors import ImportRefused
from dragoman_costs.imports.files import ImportFiles
from dragoman_costs.imports.models import ImportState, PerformImport
from dragoman_costs.imports.reader import ExportReader, Survey
from dragoman_costs.imports.service import ACTION
from dragoman_costs.imports.sources import Sources
from dragoman_costs.imports.store import ImportStore
from dragoman_costs.money import plain
from dragoman_costs.slices.store import NewSlice, SliceStore
from dragoman_costs.slices.store_loading import LoadingStore

Record = dict[str, Any]
# Periods are written together until there are so many rows: for each batch the file is read again.
_BATCH_ROWS: Final = 1_000_000
_LOADERS: Final = 2
_MOST_PERIODS: Final = 240
_SHOWN_BAD: Final = 3


class ImportWorker:
    """Imports files. An attempt that was lost is done again, but for the periods that are shown already."""

    name = "costs-import"

    def __init__(  # noqa: PLR0913 - what it asks of others, each by its name
        self,
        imports: ImportStore,
        slices: SliceStore,
        loading: LoadingStore,
        sources: Sources,
        reader: ExportReader,
        files: ImportFiles,
        endings: ImportEndings,
        *,
        most_bad_percent: float,
        timeout_s: int,
        new_id: Callable[[], UUID],
    ) -> None:
        self._imports = imports
        self._slices = slices
        self._loading = loading
        self._sources = sources
        self._reader = reader
        self._files = files
        self._endings = endings
        self._most_bad_percent = most_bad_percent
        self._new_id = new_id
        self.capabilities: Sequence[Capability] = (
            Capability(
                ACTION,
                "Import a billing export",
                PerformImport,
                required=False,
                timeout_s=timeout_s,
                at_once=4,
                permissions=("manage:accounts",),
            ),
        )

    async def perform(self, assignment: Assignment) -> Performed:
        """Import the file of a request, and keep the report."""
        caller, scope = assignment.caller, scope_of(assignment.caller)
        import_id = cast("PerformImport", assignment.input).import_id
        request = await self._imports.find(scope, import_id)
        if request is None or str(request["account_id"]) != assignment.envelope.resource.id:
            raise NotFound("import", import_id)
        if await self._imports.find_account(scope, request["account_id"]) is None:
            raise NotFound("cloud account", request["account_id"])
        await self._imports.start(scope, import_id)
        try:
            async with self._files.directory(caller.tenant, import_id) as work:
                await report_progress("fetching the file", 0)
                file = await self._sources.fetch(caller, request["source"], work)
                await report_progress("reading the file", 5)
                survey = await self._reader.survey(caller.tenant, file, work)
                await self._keep_report(scope, import_id, survey)
                output = await self._import(caller, request, survey, work)
        except asyncio.CancelledError:
            if assignment.cancelled():
                await self._slices.abandon(scope, import_id)
                await self._endings.end(scope, import_id, ImportState.CANCELLED)
            raise
        except DragomanError as error:
            if not error.retryable:
                await self._slices.abandon(scope, import_id)
                await self._endings.fail(scope, import_id, error)
            raise
        await self._sources.finished(caller, request["source"])
        evidence = Evidence(
            EvidenceKind.DOCUMENT, survey.sha256, f"dragoman://cost-imports/{import_id}", datetime.now(UTC)
        )
        return Performed(output, (evidence,))

    async def _keep_report(self, scope: Scope, import_id: UUID, survey: Survey) -> None:
        bad = [{**row, "id": self._new_id()} for row in survey.bad]
        await self._imports.report(
            scope, import_id, sha256=survey.sha256, rows=survey.rows - survey.bad_count, bad_count=survey.bad_count,
            periods=_listed(survey, ()), bad=bad,
        )  # fmt: skip
        if survey.rows == 0:
            raise ImportRefused("EMPTY", "it has no rows")
        if survey.bad_count == survey.rows or survey.bad_count * 100 > survey.rows * self._most_bad_percent:
            raise ImportRefused("TOO_MANY_BAD_ROWS", _describe_bad(survey))
        if len(survey.periods) > _MOST_PERIODS:
            raise ImportRefused("TOO_MANY_PERIODS", f"it has {len(survey.periods)} billing periods: split it")

    async def _import(self, caller: Caller, request: Record, survey: Survey, work: Path) -> Record:
        scope, import_id = scope_of(caller), request["id"]
        # What an attempt before this one has begun and not shown.
        await self._slices.abandon(scope, import_id)
        current = await self._list_current(scope, request, survey)
        pending = {period: rows for period, rows in survey.periods.items() if period not in current}
        shown = dict(current)
        done_rows = sum(survey.periods[period] for period in current)
        progress = _Progress(done_rows, sum(survey.periods.values()))
        for number, batch in enumerate(_batches(pending)):
            new = [self._new_slice(request, survey, period) for period in batch]
            await self._load(caller, new, survey, work, work / str(number), progress)
            for one in new:
                summed = survey.periods[one.period] if survey.exact else None
                await self._slices.show(scope, one, whole=not request["part"], summed=summed)
                shown[one.period] = one.id
        periods = _listed(survey, current)
        totals = [
            {name: value if name in ("currency", "row_count") else plain(value) for name, value in row.items()}
            for row in await self._slices.sum(scope, list(shown.values()))
        ]
        state = ImportState.DONE if pending else ImportState.UNCHANGED
        await self._endings.end(scope, import_id, state, periods=periods, totals=totals)
        return {
            "import_id": str(import_id), "account_id": str(request["account_id"]), "state": state.value,
            "file_name": request["file_name"], "file_sha256": survey.sha256,
            "row_count": survey.rows - survey.bad_count, "bad_count": survey.bad_count, "periods": periods,
            "totals": totals,
        }  # fmt: skip

    async def _list_current(self, scope: Scope, request: Record, survey: Survey) -> dict[date, UUID]:
        """Return the periods that show this very file already, with their slices."""
        current: dict[date, UUID] = {}
        for period, rows in survey.periods.items():
            slices = await self._slices.list_current(scope, request["account_id"], period)
            same = [one for one in slices if one["part"] == _part(request) and one["file_sha256"] == survey.sha256]
            alone = request["part"] or len(slices) == 1
            if same and alone and same[0]["row_count"] == rows:
                current[period] = same[0]["id"]
        return current

    def _new_slice(self, request: Record, survey: Survey, period: date) -> NewSlice:
        return NewSlice(
            id=self._new_id(), account_id=request["account_id"], period=period, part=_part(request),
            import_id=request["id"], file_name=request["file_name"], file_sha256=survey.sha256, extra=survey.extra,
        )  # fmt: skip

    async def _load(
        self, caller: Caller, new: Sequence[NewSlice], survey: Survey, work: Path, into: Path, progress: "_Progress"
    ) -> None:
        scope, account_id = scope_of(caller), new[0].account_id
        for one in new:
            await self._slices.begin(scope, one)
        slices = {one.period: one.id for one in new}
        rows, sums = await self._reader.write(caller.tenant, survey, list(slices), work=work, into=into)
        waiting = list(reversed(rows))
        loaded = 0

        async def load() -> None:
            nonlocal loaded
            while waiting:
                file = waiting.pop()
                content = self._files.read(caller.tenant, file)
                count = await self._loading.load_rows(scope, slices, content)
                loaded += count
                await self._files.remove(caller.tenant, file)
                await progress.add(count)

        async with asyncio.TaskGroup() as group:
            for _ in range(_LOADERS):
                group.create_task(load())
        if loaded != sum(survey.periods[period] for period in slices):
            raise ImportRefused("CHANGED", "the file changed while it was read: import it again")
        for table, file in sums.items():
            await self._loading.load_sums(scope, table, account_id, slices, self._files.read(caller.tenant, file))
        await self._files.remove(caller.tenant, into)


class _Progress:
    """How many rows are in."""

    def __init__(self, done: int, total: int) -> None:
        self._done = done
        self._total = total

    async def add(self, rows: int) -> None:
        self._done += rows
        await report_progress(f"{self._done:,} of {self._total:,} rows", 10 + 90 * self._done / max(1, self._total))


def _part(request: Record) -> str:
    return request["file_name"] if request["part"] else ""


def _batches(pending: Mapping[date, int]) -> list[list[date]]:
    batches: list[list[date]] = []
    rows = _BATCH_ROWS
    for period, count in pending.items():
        if rows >= _BATCH_ROWS:
            batches.append([])
            rows = 0
        batches[-1].append(period)
        rows += count
    return batches


def _listed(survey: Survey, unchanged: Mapping[date, UUID] | tuple[()]) -> list[Record]:
    return [
        {"period": period.isoformat(), "row_count": rows, "unchanged": period in unchanged}
        for period, rows in survey.periods.items()
    ]


def _describe_bad(survey: Survey) -> str:
    first = "; ".join(
        f"line {row['line']}{', ' + row['column'] if row['column'] else ''}: {row['reason']}"
        for row in survey.bad[:_SHOWN_BAD]
    )
    return f"{survey.bad_count:,} of {survey.rows:,} rows cannot be read ({first})"
