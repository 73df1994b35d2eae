"""From the documents of a commit to what the index shows of them, and what is wrong with them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dragoman.services.knowledge.documents import layer_complaint, may_be_accepted, read_item
from dragoman.services.knowledge.errors import ItemRefused
from dragoman.services.knowledge.items import UNREADABLE_POLICY, Item, ItemType, Status, is_policy
from dragoman.services.knowledge.repository import Repository

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Problem:
    kind: str
    message: str
    line: int = 1
    item_id: str | None = None

    def record(self, path: str, blob: str) -> Record:
        return {"path": path, "blob": blob, "kind": self.kind, "line": self.line, "item_id": self.item_id,
                "message": self.message[:1_000]}  # fmt: skip


def records_of(
    repository: Repository, commit: str, batch: Mapping[str, str], before: Mapping[str, Record]
) -> tuple[list[Record], list[Record]]:
    """Rows of items and rows of problems; a document that is no item is a problem and nothing else."""
    items: list[Record] = []
    problems: list[Record] = []
    at = repository.committed_at(commit).isoformat()
    for path, blob in batch.items():
        text: str | None = None
        try:
            text = repository.text(blob, path)
            item = read_item(text, path)
        except ItemRefused as refused:
            complaint = refused.details["errors"][0]
            found = _Problem("malformed", f"{complaint['field']}: {complaint['message']}", refused.details["line"])
            problems.append(found.record(path, blob))
            if is_policy(path) and (text is None or may_be_accepted(text, path)):
                told = "until it can be read, checks fail and every action is forbidden"
                problems.append(_Problem(UNREADABLE_POLICY, told, found.line).record(path, blob))
            continue
        earlier = before.get(path)
        created = earlier["created_at"].isoformat() if earlier and earlier["id"] == item.id else at
        items.append({**_row(item), "blob": blob, "commit": commit,
                      "created_at": item.created_at.isoformat() if item.created_at else created,
                      "updated_at": item.updated_at.isoformat() if item.updated_at else at})  # fmt: skip
        problems += [one.record(path, blob) for one in _conflicts(item, text, earlier)]
    return items, problems


def _conflicts(item: Item, text: str, earlier: Record | None) -> list[_Problem]:
    found: list[_Problem] = []
    if (line := layer_complaint(text, item)) is not None:
        where = item.location.folder
        found.append(_Problem("layer_mismatch", f"claims another place than its folder {where}", line, item.id))
    if earlier is None or earlier["id"] != item.id:
        return found
    was = Status(earlier["status"])
    if not was.may_become(item.status):
        found.append(_Problem("status_change", f"went from {was.value} to {item.status.value}", item_id=item.id))
    taken = earlier["type"] == ItemType.ADR.value and was not in (Status.DRAFT, Status.PROPOSED)
    if taken and earlier["content_hash"] != item.content_hash:
        found.append(_Problem("hash_mismatch", f"was changed after it was {was.value}", item_id=item.id))
    return found


def _row(item: Item) -> Record:
    location = item.location
    return {
        "path": item.path,
        "id": item.id,
        "type": location.type.value,
        "layer": location.layer.value,
        "layer_id": location.layer_id,
        "title": item.title,
        "summary": item.summary,
        "status": item.status.value,
        "severity": item.severity.value,
        "tags": list(item.tags),
        "content": item.content,
        "content_hash": item.content_hash,
        "constraints": [one.model_dump(mode="json", exclude_defaults=True) for one in item.constraints],
        "metadata": item.metadata,
        "supersedes": list(item.supersedes),
        "superseded_by": item.superseded_by,
        "links": list(item.links),
        "version": item.version,
    }
