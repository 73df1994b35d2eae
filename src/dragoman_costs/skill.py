"""Costs in a conversation: clear questions are answered without a model, from the operations that are there."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, cast

from dragoman.kit import (
    Artifact,
    Completed,
    Content,
    Context,
    Failed,
    OnRequestResult,
    Rejected,
    SkillHandler,
    Tool,
    skill,
)

Json = dict[str, Any]
_QUERY, _DASHBOARD = "costs_query", "costs_dashboard"
_DIMENSIONS: Final[Mapping[str, str]] = {
    "provider": "provider", "providers": "provider", "cloud": "provider", "clouds": "provider",
    "service": "service", "services": "service", "account": "account_name", "accounts": "account_name",
    "region": "region", "regions": "region", "resource": "resource", "resources": "resource", "day": "day",
    "week": "week", "month": "month",
}  # fmt: skip
# What people call services; bills spell them out.
_SHORT: Final[Mapping[str, str]] = {
    "ec2": "elastic compute cloud", "s3": "simple storage service", "rds": "relational database service",
    "eks": "kubernetes service", "gce": "compute engine", "gcs": "cloud storage", "vms": "virtual machines",
}  # fmt: skip
_PROVIDERS: Final[Mapping[str, str]] = {
    "azure": "microsoft", "microsoft": "microsoft", "gcp": "google", "google": "google", "google cloud": "google",
    "aws": "aws", "oracle": "oracle",
}  # fmt: skip
_MONTHS: Final = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
                  "november", "december")  # fmt: skip
_TIME: Final = (
    r"(?P<time>today|yesterday|this week|last week|this month|last month|this year|last year|last \d{1,3} days"
    rf"|in (?:{'|'.join(_MONTHS)})(?: \d{{4}})?)"
)
_WHEN: Final = re.compile(rf"\b{_TIME}\b", re.I)
_TOP: Final = re.compile(r"\b(?:top|biggest|largest|most expensive)\s+(?:(?P<count>\d{1,3})\s+)?(?P<what>\w+)", re.I)
_BY: Final = re.compile(r"\b(?:by|per|for each)\s+(?P<what>tag:\S+|\w+)", re.I)
_ON: Final = re.compile(
    r"\b(?:spen[dt]|spending|pa(?:y|id)|costs?)\b.*?\b(?:on|for|of)\s+(?P<what>[\w .&'-]{2,60}?)\s*$", re.I
)
_COST: Final = re.compile(r"\b(?:costs?|spen[dt]|spending|bills?|pa(?:y|id))\b", re.I)
_PAGE: Final = re.compile(r"\b(?:dashboard|overview|how are (?:our )?costs)\b", re.I)
_EVERYTHING: Final = frozenset({"cloud", "clouds", "the cloud", "everything", "all", "us"})


@skill(
    id="costs",
    name="Costs",
    description="Says what clouds cost: by provider, service, account, region, tag or time, with trend and forecast.",
    tags=["costs", "finops", "tools"],
    examples=["What did we spend on EC2 last month?", "Top services this week", "Costs by region in October"],
    openings=[
        "what did we spend", "how much did we spend", "what do we spend", "top services", "top providers",
        "top accounts", "top resources", "top regions", "costs by", "spend by", "spending by", "cost dashboard",
        "costs dashboard", "costs:",
    ],
)  # fmt: skip
class CostsSkill(SkillHandler):
    """The operations of costs, and questions that need no model."""

    def __init__(self, tools: Iterable[Tool], *, today: Callable[[], date] | None = None) -> None:
        self._by_name = {tool.name: tool for tool in tools}
        self.tools = list(self._by_name.values())  # pyright: ignore[reportAttributeAccessIssue] an instance has its own
        self._today = today or (lambda: datetime.now(UTC).date())

    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        """Answer a question that is clear; leave others to a model, where there is one."""
        words = content.text.strip().rstrip("?!. ")
        if _PAGE.search(words):
            return await self._answer(ctx, _DASHBOARD, {}, _page)
        query = read_question(words, self._today())
        if query is not None:
            return await self._answer(ctx, _QUERY, query, _rows)
        if ctx.has_llm:
            return await super().on_request(ctx, content)
        return Rejected(
            'ask for instance "what did we spend on EC2 last month", "top services this week" or "costs by region in '
            f'October", or send {{"tool": "{_QUERY}", "arguments": {{...}}}}'
        )

    async def _answer(self, ctx: Context, name: str, arguments: Json, shown: Callable[[Json], str]) -> OnRequestResult:
        found = await self._by_name[name].call(arguments, ctx.for_tool())
        if found.is_error:
            return Failed(str(found.output), found.code, found.details)
        output = cast("Json", found.output)
        return Completed(shown(output), [Artifact.from_json(name, output)])


def read_question(words: str, today: date) -> Json | None:
    """Return the query that a sentence asks for, or None where it is not clear."""
    query: Json = {"measures": ["effective"]}
    rest = words
    if (when := _WHEN.search(words)) is not None:
        query |= _span(when["time"].lower(), today)
        rest = f"{words[: when.start()]} {words[when.end() :]}"
    rest = " ".join(rest.split())
    if (top := _TOP.search(rest)) is not None:
        dimension = _DIMENSIONS.get(top["what"].lower())
        return _grouped(query, dimension) | {"limit": int(top["count"] or 10) or 10} if dimension else None
    if not _COST.search(rest):
        return None
    if (by := _BY.search(rest)) is not None:
        what = by["what"]
        dimension = what if what.lower().startswith("tag:") else _DIMENSIONS.get(what.lower())
        return _grouped(query, dimension) if dimension else None
    on = _ON.search(rest)
    if on is not None and on["what"].lower() not in _EVERYTHING:
        return query | {"filters": [_named(on["what"].strip())]}
    return query if when is not None or on is not None else None


def _named(what: str) -> Json:
    """Return the filter for what a person calls a provider or a service."""
    if (provider := _PROVIDERS.get(what.lower())) is not None:
        return {"field": "provider", "op": "contains", "value": provider}
    return {"field": "service", "op": "contains", "value": _SHORT.get(what.lower(), what)}


def _grouped(query: Json, dimension: str) -> Json:
    if dimension == "resource":
        return query | {"dataset": "resources", "dimensions": ["resource", "service"]}
    return query | {"dimensions": [dimension]}


def _span(words: str, today: date) -> Json:
    """Return the first and the last day of a time in words."""
    week, month, year = today - timedelta(days=today.weekday()), today.replace(day=1), today.replace(month=1, day=1)
    before = (month - timedelta(days=1)).replace(day=1)
    known = {
        "today": (today, today),
        "yesterday": (today - timedelta(days=1), today - timedelta(days=1)),
        "this week": (week, today),
        "last week": (week - timedelta(days=7), week - timedelta(days=1)),
        "this month": (month, today),
        "last month": (before, month - timedelta(days=1)),
        "this year": (year, today),
        "last year": (year.replace(year=year.year - 1), year - timedelta(days=1)),
    }
    if words.startswith("in "):
        first, last = _month(words.split()[1:], today)
    elif words in known:
        first, last = known[words]
    else:
        first, last = today - timedelta(days=int(words.split()[1]) - 1), today
    return {"start_date": first.isoformat(), "end_date": last.isoformat()}


def _month(words: list[str], today: date) -> tuple[date, date]:
    """Return the days of a month that is named; without a year, the latest one that has begun."""
    number = _MONTHS.index(words[0]) + 1
    year = int(words[1]) if len(words) > 1 else today.year - (number > today.month)
    first = date(max(year, 1990), number, 1)
    return first, (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)


def _rows(output: Json) -> str:
    """Return the answer of a query in words."""
    names = [column["name"] for column in output["columns"] if column["name"] not in ("effective", "currency")]
    lines = [
        f"{', '.join(str(row[name]) if row[name] not in (None, '') else 'none' for name in names)}: "
        f"{row['effective']} {row['currency']}"
        if names
        else f"{row['effective']} {row['currency']}"
        for row in output["rows"]
    ]
    return "\n".join(f"- {line}" if names else line for line in lines) or "No costs."


def _page(output: Json) -> str:
    """Return a dashboard in words."""
    if output["period"] is None:
        return "No costs."
    lines = [f"{output['period']['start_date']} to {output['period']['end_date']}:"]
    for one in output["currencies"]:
        change = "" if one["change_percent"] is None else f" ({one['change_percent']:+.1f} % against the time before)"
        lines.append(f"- {one['total']} {one['currency']}{change}")
        if one["month"] is not None:
            month = one["month"]
            lines.append(f"  the month: {month['total']} ({month['low']} to {month['high']})")
        lines += [f"  {item['name']}: {item['total']}" for item in one["by_service"][:5]]
    return "\n".join(lines)
