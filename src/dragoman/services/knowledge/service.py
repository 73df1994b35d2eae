"""Asking knowledge: show, check, and how it came to be so."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dragoman.blocking import Threads
from dragoman.context import Caller
from dragoman.errors import ExtraMissing, InvalidInput, NotFound
from dragoman.infra.db import Scope, scope_of
from dragoman.services.knowledge import models as m
from dragoman.services.knowledge.constraints import (
    RANK,
    Constraint,
    Dependency,
    Report,
    Rule,
    Severity,
    SourceFile,
    Subject,
    Violation,
)
from dragoman.services.knowledge.constraints.effort import TooMuchToCheck
from dragoman.services.knowledge.errors import CheckTooLarge
from dragoman.services.knowledge.index import KnowledgeIndex
from dragoman.services.knowledge.items import MAIN, PROPOSALS, UNREADABLE_POLICY, ItemType, Layer
from dragoman.services.knowledge.repositories import EXTRA, Repositories
from dragoman.services.knowledge.store import KnowledgeStore, Record

if TYPE_CHECKING:
    from dragoman.services.knowledge.repository import Change
    from dragoman.services.knowledge.workshop import Workshop

_MOST_PROBLEMS = 500
_MOST_HISTORY = 50


class KnowledgeService:
    """Answers from the index, which follows the repository."""

    def __init__(self, store: KnowledgeStore, index: KnowledgeIndex, repositories: Repositories) -> None:
        self._store = store
        self._index = index
        self._repositories = repositories
        self._threads = Threads("constraints", 4, share=2)

    async def show(self, caller: Caller, wanted: m.ShowItem) -> m.KnowledgeItem:
        """The item as it is in force; one that never was, as it is proposed.

        Raises:
            NotFound: there is none, or it belongs to another tenant.
        """
        rows = await self.find(scope_of(caller), wanted.id)
        row = rows[0]
        proposal = next((one["branch"] for one in rows if one["branch"].startswith(PROPOSALS)), None)
        history = await self._log(caller, row, _MOST_HISTORY) if wanted.include_history else None
        return m.KnowledgeItem.model_validate(
            {**row, "revision": row["version"], "proposal": proposal, "history": history}
        )

    async def history(self, caller: Caller, wanted: m.ItemHistory) -> m.ChangeHistory:
        """The commits that changed an item."""
        row = (await self.find(scope_of(caller), wanted.id))[0]
        changes = await self._log(caller, row, wanted.limit)
        return m.ChangeHistory(id=wanted.id, path=row["path"], changes=changes)

    async def diff(self, caller: Caller, wanted: m.DiffItem) -> m.Difference:
        """How an item changed between two commits.

        Raises:
            InvalidInput: one of them is no commit of this repository.
        """
        rows = await self.find(scope_of(caller), wanted.id)
        tip, path = rows[-1], rows[0]["path"]

        def work(shop: "Workshop") -> tuple[str | None, str, str]:
            named: dict[str, str | None] = {}
            for field, given in (("old", wanted.old), ("new", wanted.new)):
                named[field] = shop.repository.resolve(given) if given else None
                if given and named[field] is None:
                    raise InvalidInput.of(field, "is not a commit of this repository")
            branch: str = tip["branch"]
            new = named["new"] or shop.repository.find_head(branch) or tip["commit"]
            old = named["old"]
            if old is None and wanted.new is None and branch != MAIN:
                old = shop.repository.find_head()
            elif old is None:
                changes = shop.repository.log(new, path, limit=2)
                old = changes[1].commit if len(changes) > 1 else None
            return old, new, shop.repository.diff(old, new, path)

        old, new, diff = await self._repositories.run(caller.tenant, work)
        return m.Difference(id=wanted.id, path=path, old=old, new=new, diff=diff)

    async def status(self, caller: Caller, _: m.ShowStatus) -> m.RepositoryStatus:
        """How the repository stands, and what is wrong in it."""
        scope = scope_of(caller)
        await self._index.refresh(scope)
        row = await self._store.find_repository(scope) or {}
        return m.RepositoryStatus(
            head=(await self._repositories.refs(scope)).get(MAIN),
            indexed=row.get("indexed"),
            remote=row.get("remote"),
            remote_branch=row.get("branch"),
            synced_at=row.get("synced_at"),
            items=await self._store.counts(scope),
            problems=[shown_problem(one) for one in await self._store.problems(scope, _MOST_PROBLEMS)],
        )

    async def check(self, caller: Caller, given: m.CheckKnowledge) -> m.CheckResult:
        """Hold files and dependencies against what is accepted, or against the items that are named.

        A policy that cannot be read might forbid anything: without named items it is a violation.

        Raises:
            NotFound: an item that was named is not there.
            CheckTooLarge: it takes too long.
        """
        scope = scope_of(caller)
        await self._index.refresh(scope)
        rows = await self._store.rules(scope, given.item_ids)
        if missing := set(given.item_ids or ()) - {row["id"] for row in rows}:
            raise NotFound("item", min(missing))
        rules = [rule for row in rows for rule in rules_of(row)]
        subject = Subject(
            files=[SourceFile(file.path, file.content) for file in given.files],
            dependencies=[Dependency(**one.model_dump()) for one in given.dependencies],
        )
        report = await self._threads.run(caller.tenant, _checked, rules, subject)
        violations = [*report.violations, *([] if given.partial else report.unmet)]
        unreadable = await self._store.problems_of_kind(scope, UNREADABLE_POLICY) if given.item_ids is None else []
        shown = [*_shown(violations, given.min_severity), *map(_unreadable, unreadable)]
        count = {severity: sum(one.severity is severity for one in shown) for severity in Severity}
        return m.CheckResult(
            passed=not count[Severity.BLOCK],
            violations=shown,
            unmet=_shown(report.unmet, given.min_severity) if given.partial else [],
            summary=m.CheckSummary(
                info=count[Severity.INFO],
                warn=count[Severity.WARN],
                block=count[Severity.BLOCK],
                files=len(given.files),
                dependencies=len(given.dependencies),
                constraints=len(rules),
                unused=len(rules) - len(report.applied),
            ),
        )

    async def constraints(self, caller: Caller, wanted: m.ListConstraints) -> m.ConstraintsInForce:
        """List what a check without named items demands, the severest first.

        A policy that cannot be read is among them: every check fails until it can be.
        """
        scope = scope_of(caller)
        await self._index.refresh(scope)
        listed = [_unreadable_demand(row) for row in await self._store.problems_of_kind(scope, UNREADABLE_POLICY)]
        for row in await self._store.rules(scope, None):
            listed += [_demand(row, rule) for rule in rules_of(row)]
        asked = [one for one in listed if RANK[one.severity] >= RANK[wanted.min_severity]]
        asked.sort(key=lambda one: (-RANK[one.severity], one.item_id))
        return m.ConstraintsInForce(constraints=asked[: wanted.limit], total_count=len(asked))

    async def find(self, scope: Scope, item_id: str) -> list[Record]:
        """An item as each branch has it, the one in force first.

        Raises:
            NotFound: no branch has it.
        """
        await self._index.refresh(scope)
        if not (rows := await self._store.find(scope, item_id)):
            raise NotFound("item", item_id)
        return rows

    async def _log(self, caller: Caller, row: Record, limit: int) -> list[m.ItemChange]:
        def work(shop: "Workshop") -> "list[Change]":
            head = shop.repository.find_head(row["branch"]) or row["commit"]
            return shop.repository.log(head, row["path"], limit=limit)

        changes = await self._repositories.run(caller.tenant, work)
        return [
            m.ItemChange(commit=one.commit, author=one.author, email=one.email, at=one.at, message=one.message)
            for one in changes
        ]


def rules_of(row: Record) -> list[Rule]:
    """The constraints of an item as the index shows it."""
    severity = Severity(row["severity"])
    return [Rule(row["id"], row["title"], Constraint.model_validate(one), severity) for one in row["constraints"]]


def shown_problem(row: Record) -> m.KnowledgeProblem:
    """A problem as it is told."""
    return m.KnowledgeProblem(
        kind=row["kind"], file=row["path"], line=row["line"], item_id=row["item_id"], message=row["message"]
    )


def _unreadable(row: Record) -> m.BrokenConstraint:
    demand = _unreadable_demand(row)
    return m.BrokenConstraint(
        item_id=demand.item_id,
        item_title=demand.item_title,
        constraint=demand.constraint,
        severity=demand.severity,
        message=demand.message or "",
        location=m.CodeLocation(file=row["path"], line=row["line"]),
    )


def _unreadable_demand(row: Record) -> m.ConstraintInForce:
    return m.ConstraintInForce(
        item_id=row["path"],
        item_title=row["path"],
        item_type=ItemType.POLICY,
        layer=Layer.COMPANY,
        severity=Severity.BLOCK,
        constraint="readable document",
        message=f"the policy cannot be read: {row['message']}",
        applies_to=[],
    )


def _demand(row: Record, rule: Rule) -> m.ConstraintInForce:
    return m.ConstraintInForce(
        item_id=rule.item_id,
        item_title=rule.item_title,
        item_type=row["type"],
        layer=row["layer"],
        severity=rule.effective_severity,
        constraint=rule.constraint.wording,
        message=rule.constraint.message,
        applies_to=list(rule.constraint.applies_to),
    )


def _checked(rules: Sequence[Rule], subject: Subject) -> Report:
    try:
        from dragoman.services.knowledge.constraints.engine import check  # noqa: PLC0415
    except ImportError as error:
        raise ExtraMissing(EXTRA) from error
    try:
        return check(rules, subject)
    except TooMuchToCheck as error:
        raise CheckTooLarge(limit_s=error.limit_s) from error


def _shown(violations: Sequence[Violation], least: Severity) -> list[m.BrokenConstraint]:
    return [
        m.BrokenConstraint(
            item_id=one.rule.item_id,
            item_title=one.rule.item_title,
            constraint=one.rule.constraint.wording,
            severity=one.rule.effective_severity,
            message=one.message,
            location=m.CodeLocation(file=one.place.file, line=one.place.line),
        )
        for one in violations
        if RANK[one.rule.effective_severity] >= RANK[least]
    ]
