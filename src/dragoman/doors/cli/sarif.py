"""Violations as SARIF 2.1.0, which code hosts show beside the lines they are about."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from dragoman import __version__

Json = dict[str, Any]
_LEVELS: Final = {"block": "error", "warn": "warning", "info": "note"}
_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_of(violations: Sequence[Mapping[str, Any]]) -> Json:
    """A log with one run: each item is a rule, each violation a result."""
    titles = {str(one["item_id"]): str(one["item_title"]) for one in violations}
    rules = [{"id": item_id, "shortDescription": {"text": title}} for item_id, title in titles.items()]
    driver = {"name": "dragoman", "version": __version__, "rules": rules}
    results = [_result(one, list(titles)) for one in violations]
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _result(violation: Mapping[str, Any], rules: list[str]) -> Json:
    result: Json = {
        "ruleId": violation["item_id"],
        "ruleIndex": rules.index(violation["item_id"]),
        "level": _LEVELS[violation["severity"]],
        "message": {"text": violation["message"]},
        "properties": {"constraint": violation["constraint"]},
    }
    location = violation["location"]
    if location["file"]:
        place: Json = {"artifactLocation": {"uri": quote(location["file"])}}
        if location["line"]:
            place["region"] = {"startLine": location["line"]}
        result["locations"] = [{"physicalLocation": place}]
    return result
