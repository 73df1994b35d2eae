"""Takes requests for imports, and tells what came of them."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from dragoman.context import Caller, PrincipalType
from dragoman.errors import DragomanError, NotFound
from dragoman.infra.db import scope_of
from dragoman.operations import Page, page
from dragoman.plugin import GateRun
from dragoman_costs.imports import models as m
from dragoman_costs.imports.endings import ImportEndings
from dragoman_costs.imports.sources import Sources
from dragoman_costs.imports.store import ImportStore

ACTION = "costs.import"


class ImportService:
    """The imports of a tenant."""

    def __init__(
        self,
        store: ImportStore,
        sources: Sources,
        endings: ImportEndings,
        *,
        run: GateRun,
        new_id: Callable[[], UUID],
    ) -> None:
        self._store = store
        self._sources = sources
        self._endings = endings
        self._run = run
        self._new_id = new_id

    async def request(self, caller: Caller, request: m.ImportFile) -> m.ImportAccepted:
        """Hand an import over as a task; imports of one account run one after another.

        Raises:
            NotFound: there is no such account or upload.
            UploadIncomplete: parts of the upload are missing.
            ImportRefused: the path names no file.
        """
        scope = scope_of(caller)
        if await self._store.find_account(scope, request.account_id) is None:
            raise NotFound("cloud account", request.account_id)
        source, name = await self._sources.check(caller, request)
        import_id = self._new_id()
        await self._store.add(
            scope, import_id, request.account_id, source=source, file_name=name, part=request.part, by=caller.subject
        )
        try:
            submitted = await self._run("task.submit", caller, {"envelope": _envelope(caller, request, import_id)})
        except DragomanError as error:
            await self._endings.fail(scope, import_id, error)
            raise
        task_id = UUID(str(submitted.task_id))
        await self._store.set_task(scope, import_id, task_id)
        return m.ImportAccepted(import_id=import_id, task_id=task_id, state=str(submitted.state))

    async def list(self, caller: Caller, query: m.ListImports) -> Page[m.Import]:
        """Return imports, newest first."""
        state = query.state.value if query.state is not None else None
        rows = await self._store.list_page(scope_of(caller), query.limit + 1, query.cursor, query.account_id, state)
        return page([_shown(row) for row in rows], query.limit)

    async def show(self, caller: Caller, ref: m.ImportRef) -> m.Import:
        """Return one import.

        Raises:
            NotFound: there is none.
        """
        row = await self._store.find(scope_of(caller), ref.import_id)
        if row is None:
            raise NotFound("import", ref.import_id)
        return _shown(row)

    async def list_bad_rows(self, caller: Caller, query: m.ListBadRows) -> Page[m.BadRow]:
        """Return rows that an import set aside, in the order of the file.

        Raises:
            NotFound: there is no such import.
        """
        await self.show(caller, m.ImportRef(import_id=query.import_id))
        rows = await self._store.list_bad(scope_of(caller), query.import_id, query.limit + 1, query.cursor)
        return page([m.BadRow.model_validate(row) for row in rows], query.limit)


def _envelope(caller: Caller, request: m.ImportFile, import_id: UUID) -> dict[str, Any]:
    kind = "human" if caller.is_person else "agent" if caller.type is PrincipalType.AGENT else "service"
    account = str(request.account_id)
    return {
        "envelope_version": "1",
        "actor": {"id": caller.subject, "type": kind},
        "action": ACTION,
        "resource": {"type": "cloud_account", "id": account},
        "matter": {"id": f"cloud-account:{account}"},
        "idempotency_key": f"{ACTION}:{import_id}",
        "request": {"queue_key": f"{ACTION}:{account}"},
        "input": {"import_id": str(import_id)},
    }


def _shown(row: dict[str, Any]) -> m.Import:
    source = row["source"]
    if (url := source.get("url")) is not None:
        # The query of a signed address is a credential.
        source = {"url": str(url).partition("?")[0]}
    return m.Import.model_validate({**row, "source": source})
