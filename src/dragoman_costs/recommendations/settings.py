"""Thresholds and exclusions of rules, as a tenant sets them."""

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from dragoman.arguments import invalid
from dragoman.context import Caller
from dragoman.errors import InvalidInput
from dragoman.infra.db import Scope, scope_of
from dragoman_costs.recommendations import models as m
from dragoman_costs.recommendations.analysis import RuleSettings, default_settings
from dragoman_costs.recommendations.findings import Exclusions, Options
from dragoman_costs.recommendations.rules import OPTIONS, SUMMARIES
from dragoman_costs.recommendations.store import RecommendationStore, Record


class RuleBook:
    """The rules of a tenant: the defaults, and what it set."""

    def __init__(self, store: RecommendationStore) -> None:
        self._store = store

    async def read(self, scope: Scope) -> dict[str, RuleSettings]:
        """Return every rule as it is to be used."""
        settings = default_settings()
        for row in await self._store.list_rules(scope):
            if row["rule"] in settings:
                options = _options(row["rule"], row["thresholds"])
                excluded = Exclusions.model_validate(row["exclusions"])
                settings[row["rule"]] = RuleSettings(enabled=row["enabled"], options=options, exclusions=excluded)
        return settings

    async def list(self, caller: Caller, query: m.ListRules) -> m.Rules:
        """Return the rules with their thresholds and exclusions.

        Raises:
            InvalidInput: there is no rule of that name.
        """
        if query.rule is not None:
            _check_name(query.rule)
        rows = {row["rule"]: row for row in await self._store.list_rules(scope_of(caller))}
        names = [query.rule] if query.rule is not None else sorted(OPTIONS)
        return m.Rules(items=[_view(name, rows.get(name)) for name in names])

    async def configure(self, caller: Caller, request: m.ConfigureRule) -> m.RuleView:
        """Set a rule; what is left out stays.

        Raises:
            InvalidInput: there is no such rule, or it has no such threshold, or that takes another value.
        """
        _check_name(request.rule)
        rows = {row["rule"]: row for row in await self._store.list_rules(scope_of(caller))}
        row = rows.get(request.rule) or {"enabled": True, "thresholds": {}, "exclusions": None}
        merged: dict[str, Any] = {**row["thresholds"], **(request.thresholds or {})}
        thresholds = {name: value for name, value in merged.items() if value is not None}
        _options(request.rule, thresholds)
        exclusions = request.exclusions or Exclusions.model_validate(row["exclusions"] or {})
        kept = await self._store.put_rule(
            scope_of(caller), request.rule,
            enabled=row["enabled"] if request.enabled is None else request.enabled, thresholds=thresholds,
            exclusions=exclusions.model_dump(mode="json"), by=caller.subject,
        )  # fmt: skip
        return _view(request.rule, kept)


def _options(rule: str, thresholds: Mapping[str, Any]) -> Options:
    model = OPTIONS[rule]
    unknown = [name for name in thresholds if name not in model.model_fields]
    if unknown:
        near = difflib.get_close_matches(unknown[0], model.model_fields, 1)
        hint = f": did you mean {near[0]}?" if near else f": it has {', '.join(sorted(model.model_fields))}"
        raise InvalidInput.of(f"thresholds.{unknown[0]}", f"{rule} has no such threshold{hint}")
    try:
        return model.model_validate(dict(thresholds))
    except ValidationError as error:
        raise invalid(error, within="thresholds") from None


def _check_name(rule: str) -> None:
    if rule not in OPTIONS:
        near = difflib.get_close_matches(rule, OPTIONS, 1)
        hint = f": did you mean {near[0]}?" if near else f": there are {', '.join(sorted(OPTIONS))}"
        raise InvalidInput.of("rule", f"there is no rule {rule!r}{hint}")


def _view(rule: str, row: Record | None) -> m.RuleView:
    thresholds = _options(rule, row["thresholds"] if row else {})
    exclusions = Exclusions.model_validate(row["exclusions"] if row else {})
    return m.RuleView.model_validate(
        {
            "rule": rule, "summary": SUMMARIES[rule], "enabled": row["enabled"] if row else True,
            "thresholds": thresholds.model_dump(mode="json"), "exclusions": exclusions,
            "threshold_schema": OPTIONS[rule].model_json_schema(), "version": row["version"] if row else 0,
            "updated_by": row["updated_by"] if row else None, "updated_at": row["updated_at"] if row else None,
        }
    )  # fmt: skip
