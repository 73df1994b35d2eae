"""The standalone verifier as one file: the modules that it consists of, one after the other."""

import ast
from importlib import resources

# Each imports only from those before it, and from the standard library.
_MODULES = ("ed25519", "chain", "store_shelf", "promises", "export_file", "timelines", "verifier")
_HEADER = '''#!/usr/bin/env python3
"""The standalone verifier of Dragoman's audit exports: Python 3.11 or newer, and nothing else.

    python3 -I verify_audit.py trail.jsonl --public-key HEX --head heads.jsonl
    python3 -I verify_audit.py trail.jsonl --show task/ID

It is made of the modules of `dragoman/services/audit` that are named below, without a change but for their imports.
"""
'''
_OWN = "dragoman."


def verifier_source() -> str:
    """Return the text of the verifier."""
    folder = resources.files("dragoman.services.audit")
    pieces = [_HEADER]
    for module in _MODULES:
        source = folder.joinpath(f"{module}.py").read_text(encoding="utf-8")
        pieces.append(f"\n\n# {'-' * 20} {module} {'-' * 20}\n\n{_alone(source, last=module == _MODULES[-1])}")
    return "".join(pieces)


def _alone(source: str, *, last: bool) -> str:
    """Leave out what a module imports from its neighbours, and how it is started, unless it is the last one."""
    lines = source.splitlines(keepends=True)
    for node in reversed(ast.parse(source).body):
        is_own = isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_OWN)
        if is_own or (isinstance(node, ast.If) and not last):
            del lines[node.lineno - 1 : node.end_lineno]
    return "".join(lines).strip() + "\n"
