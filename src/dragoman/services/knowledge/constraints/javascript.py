"""The modules that JavaScript and TypeScript import: statements, re-exports, require and import calls."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import tree_sitter_javascript
import tree_sitter_typescript
from tree_sitter import Language, Node, Parser, Query, QueryCursor

_QUERY = """
(import_statement source: (string) @module)
(export_statement source: (string) @module)
(call_expression function: (import) arguments: (arguments . [(string) (template_string)] @module))
((call_expression function: (identifier) @called arguments: (arguments . (string) @module)) (#eq? @called "require"))
"""
_TYPESCRIPT_QUERY = _QUERY + "\n(import_require_clause source: (string) @module)"
_GRAMMARS: dict[str, Callable[[], Any]] = {
    ".ts": tree_sitter_typescript.language_typescript,
    ".mts": tree_sitter_typescript.language_typescript,
    ".cts": tree_sitter_typescript.language_typescript,
    ".tsx": tree_sitter_typescript.language_tsx,
}


def modules_of(content: str, suffix: str) -> list[tuple[str, int]]:
    """Every module with its line, in order; a file that does not parse whole gives what can be read of it."""
    parser, query = _tools(_GRAMMARS.get(suffix, tree_sitter_javascript.language))
    tree = parser.parse(content.encode())
    found: list[Node] = QueryCursor(query).captures(tree.root_node).get("module", [])
    modules = [(_unquoted(node), node.start_point.row + 1) for node in found]
    return sorted(((name, line) for name, line in modules if name), key=lambda module: module[1])


@lru_cache(maxsize=8)
def _tools(grammar: Callable[[], Any]) -> tuple[Parser, Query]:
    language = Language(grammar())  # pyright: ignore[reportDeprecated] - it is given a capsule, which is typed as Any
    typed = grammar is not tree_sitter_javascript.language
    return Parser(language), Query(language, _TYPESCRIPT_QUERY if typed else _QUERY)


def _unquoted(node: Node) -> str:
    text = (node.text or b"").decode(errors="replace")[1:-1]
    return "" if "${" in text else text
