"""Lists that fit: columns chosen by noun, the dispensable ones left out on a narrow terminal, no cell ever wrapped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.text import Text

from dragoman.doors.cli.cells import cell, for_whom, moment
from dragoman.plugin import find_columns

_GAP = 2
_LEAST = 12


@dataclass(frozen=True, slots=True)
class Column:
    """One field of a list. What is neither flexible nor optional is always shown whole: one has to type it again."""

    field: str
    title: str = ""
    flexible: bool = False
    optional: bool = False
    time_format: str = "%Y-%m-%d"

    @property
    def heading(self) -> str:
        """What stands above it."""
        return self.title or self.field.removesuffix("_at").replace("_", " ")

    def text(self, row: Mapping[str, Any]) -> Text:
        """Its cell in a row, on one line."""
        value = row.get(self.field)
        if isinstance(value, str) and (self.field == "at" or self.field.endswith(("_at", "_from", "_to"))):
            return Text(moment(value, self.time_format))
        if self.field == "on_behalf_of":
            return cell(for_whom(row))
        return cell(value)


# `show` takes a whole id, so a list has a whole id or, where there is a name to go by, none.
_COLUMNS: Mapping[str, Sequence[Column]] = {
    "tenant": (
        Column("slug"),
        Column("name", flexible=True),
        Column("plan"),
        Column("status"),
        Column("created_at", optional=True),
    ),
    "user": (
        Column("id"),
        Column("email", flexible=True),
        Column("role"),
        Column("status"),
        Column("name", flexible=True, optional=True),
        Column("created_at", optional=True),
    ),
    "a2a_agent": (
        Column("id"),
        Column("name", flexible=True),
        Column("status"),
        Column("scopes", flexible=True, optional=True),
        Column("certificate_expires_at", "certificate until", optional=True),
    ),
    "webhook_source": (
        Column("id"),
        Column("provider"),
        Column("name", flexible=True),
        Column("account", flexible=True, optional=True),
    ),
    "webhook_event": (
        Column("id"),
        Column("topic", flexible=True),
        Column("state"),
        Column("attempts", optional=True),
        Column("received_at", optional=True, time_format="%Y-%m-%d %H:%M"),
        Column("event_id", flexible=True, optional=True),
    ),
    "subscription": (
        Column("id"),
        Column("state"),
        Column("events", flexible=True),
        Column("url", flexible=True),
        Column("failures", optional=True),
        Column("delivered_at", "last delivered (UTC)", optional=True, time_format="%Y-%m-%d %H:%M"),
    ),
    "delivery": (
        Column("id"),
        Column("state"),
        Column("type"),
        Column("attempts", "tries"),
        Column("subject", flexible=True, optional=True),
        Column("occurred_at", "at (UTC)", optional=True, time_format="%Y-%m-%d %H:%M:%S"),
    ),
    "certificate": (
        Column("name", flexible=True),
        Column("fingerprint", flexible=True),
        Column("expires_at"),
        Column("revoked_at", optional=True),
    ),
    "key": (
        Column("id"),
        Column("name", flexible=True),
        Column("role"),
        Column("expires_at", "expires"),
        Column("hint", optional=True),
        Column("subject", "speaks as", flexible=True, optional=True),
        Column("scopes", flexible=True, optional=True),
        Column("revoked_at", "revoked", optional=True),
        Column("created_at", optional=True),
    ),
    "grant": (
        Column("grant_id", "id"),
        Column("agent", flexible=True),
        Column("on_behalf_of", "for", flexible=True),
        Column("state"),
        Column("actions", flexible=True, optional=True),
        Column("expires_at", "expires", optional=True),
        Column("created_by", "by", flexible=True, optional=True),
    ),
    "memory": (
        Column("memory_id", "id"),
        Column("layer"),
        Column("score"),
        Column("content", flexible=True),
        Column("why", flexible=True),
        Column("tags", flexible=True, optional=True),
        Column("version", optional=True),
        Column("expires_at", "expires", optional=True),
        Column("valid_from", "since", optional=True),
    ),
    "memory_version": (
        Column("version", "#"),
        Column("valid_from", "from (UTC)", time_format="%Y-%m-%d %H:%M:%S"),
        Column("valid_to", "to (UTC)", time_format="%Y-%m-%d %H:%M:%S"),
        Column("content", flexible=True),
        Column("tags", flexible=True, optional=True),
    ),
    "retrieval": (
        Column("questions"),
        Column("number", "of"),
        *(Column(f"recall_{cut}", f"recall at {cut}") for cut in (5, 10, 20)),
        *(Column(f"bm25_{cut}", f"BM25 at {cut}") for cut in (5, 10, 20)),
    ),
    "knowledge": (
        Column("id"),
        Column("title", flexible=True),
        Column("status"),
        Column("type"),
        Column("layer", optional=True),
        Column("score", optional=True),
        Column("summary", flexible=True, optional=True),
        Column("updated_at", optional=True),
    ),
    "document": (
        Column("id"),
        Column("title", flexible=True),
        Column("state"),
        Column("version", "#"),
        Column("name", flexible=True, optional=True),
        Column("matter_id", "matter", flexible=True, optional=True),
        Column("updated_at", optional=True),
    ),
    "document_version": (
        Column("version", "#"),
        Column("kind"),
        Column("made_by", "by", flexible=True),
        Column("made_at", "at (UTC)", time_format="%Y-%m-%d %H:%M:%S"),
        Column("size_bytes", "bytes"),
        Column("template", optional=True),
        Column("sha256", optional=True),
        Column("task_id", "task", optional=True),
    ),
    "worker": (
        Column("name"),
        Column("enabled"),
        Column("url", flexible=True),
        Column("has_credential", "credential", optional=True),
        Column("created_by", "by", flexible=True, optional=True),
        Column("updated_at", "changed", optional=True),
    ),
    "profile": (
        Column("action"),
        Column("required"),
        Column("sensitive"),
        Column("version", optional=True),
        Column("timeout_s", "time-out s", optional=True),
        Column("summary", flexible=True),
    ),
    "capability": (
        Column("action"),
        Column("worker"),
        Column("allowed"),
        Column("performs"),
        Column("sensitive"),
        Column("version", optional=True),
        Column("required", optional=True),
        Column("timeout_s", "time-out s", optional=True),
        Column("at_once", "at once", optional=True),
        Column("summary", flexible=True, optional=True),
        Column("decided_by", "decided by", flexible=True, optional=True),
    ),
    "approval": (
        Column("approval_id", "id"),
        Column("state"),
        Column("action"),
        Column("target", "on", flexible=True),
        Column("yes"),
        Column("expires_at", "expires", time_format="%m-%d %H:%M"),
        Column("requested_by", "asked by", flexible=True, optional=True),
        Column("on_behalf_of", "for", flexible=True, optional=True),
        Column("matter_id", "matter", flexible=True, optional=True),
        Column("reason", flexible=True, optional=True),
    ),
    "task": (
        Column("task_id", "id"),
        Column("state"),
        Column("action", flexible=True),
        Column("actor", "asked by", flexible=True),
        Column("updated_at", "since (UTC)", time_format="%m-%d %H:%M:%S"),
        Column("on_behalf_of", "for", flexible=True, optional=True),
        Column("attempt", "attempt", optional=True),
        Column("matter", flexible=True, optional=True),
        Column("correlation_id", "correlation", flexible=True, optional=True),
        Column("failure", flexible=True, optional=True),
    ),
    "signature": (
        Column("id"),
        Column("title", flexible=True),
        Column("status"),
        Column("provider"),
        Column("document_id", "document", optional=True),
        Column("status_at", "since", optional=True),
    ),
    "signature_signer": (
        Column("order", "#"),
        Column("name", flexible=True),
        Column("email", flexible=True),
        Column("subject", flexible=True, optional=True),
        Column("verified_by", "verified by", optional=True),
        Column("role"),
        Column("state"),
        Column("at", optional=True),
        Column("reason", flexible=True, optional=True),
    ),
    "signature_history": (
        Column("seq", "#"),
        Column("at", "at (UTC)", time_format="%Y-%m-%d %H:%M:%S"),
        Column("status"),
        Column("actor", "by", flexible=True),
        Column("source"),
        Column("reason", flexible=True, optional=True),
    ),
    "audit": (
        Column("seq", "#"),
        Column("at", "time (UTC)", time_format="%Y-%m-%d %H:%M:%S"),
        Column("subject", "who", flexible=True),
        Column("operation"),
        Column("outcome"),
        Column("code", optional=True),
        Column("resource", optional=True),
        Column("door", optional=True),
        Column("request_id", "request", optional=True),
    ),
}


def render_list(noun: str, rows: Sequence[Mapping[str, Any]], width: int) -> list[Text]:
    """The lines of a list, none wider than `width` unless the columns that cannot shrink already are."""
    columns = [column for column in _columns(noun, rows[0]) if any(row.get(column.field) is not None for row in rows)]
    table = [[Text(column.heading, style="bold"), *(column.text(row) for row in rows)] for column in columns]
    widths = [max(text.cell_len for text in texts) for texts in table]
    while _total(widths) > width and (dropped := _last_optional(columns)) is not None:
        shrunk = _shrink(columns, widths, width)
        if _total(shrunk) <= width:
            break
        for kept in (columns, table, widths):
            del kept[dropped]
    widths = _shrink(columns, widths, width)
    return [_line([texts[row] for texts in table], widths) for row in range(len(rows) + 1)]


def _columns(noun: str, first: Mapping[str, Any]) -> list[Column]:
    """Those of the noun; of a noun that has none chosen, the plain fields in their order."""
    if noun in _COLUMNS:
        return list(_COLUMNS[noun])
    if (plugged := find_columns(noun)) is not None:
        return [Column(one.field, one.title, flexible=one.flexible, optional=one.optional) for one in plugged]
    plain = [Column(name, flexible=name != "id") for name, value in first.items() if not isinstance(value, dict | list)]
    return [column if place < 2 else replace(column, optional=True) for place, column in enumerate(plain)]


def _last_optional(columns: Sequence[Column]) -> int | None:
    return next((place for place in reversed(range(len(columns))) if columns[place].optional), None)


def _shrink(columns: Sequence[Column], widths: Sequence[int], width: int) -> list[int]:
    """Take from the widest flexible column until all fit or none can give."""
    shrunk = list(widths)
    while _total(shrunk) > width:
        able = [place for place, column in enumerate(columns) if column.flexible and shrunk[place] > _LEAST]
        if not able:
            break
        shrunk[max(able, key=shrunk.__getitem__)] -= 1
    return shrunk


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _line(texts: Sequence[Text], widths: Sequence[int]) -> Text:
    cells: list[Text] = []
    for text, width in zip(texts, widths, strict=True):
        fitted = text.copy()
        fitted.truncate(width, overflow="ellipsis", pad=True)
        cells.append(fitted)
    line = Text(" " * _GAP).join(cells)
    line.rstrip()
    return line
