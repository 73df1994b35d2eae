import ast
import io
import tokenize

from tests.rules.tree import ours, parsed, text

FILE_LINES = 600
FUNCTION_LINES = 60
Function = ast.FunctionDef | ast.AsyncFunctionDef
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(name: str) -> set[int]:
    """The lines that hold code: no blank ones, no comments."""
    tokens = tokenize.generate_tokens(io.StringIO(text(name)).readline)
    return {line for token in tokens if token.type not in SILENT for line in range(token.start[0], token.end[0] + 1)}


def docstring_lines(function: Function) -> set[int]:
    """The lines of a promise are not lines of code."""
    first = function.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return set()


def test_no_file_is_longer_than_one_sitting() -> None:
    sizes = {name: text(name).count("\n") for name in ours("src/", ".py", ".sql", ".cedar", ".lua")}

    assert {name: lines for name, lines in sizes.items() if lines > FILE_LINES} == {}


def test_no_function_is_longer_than_one_screen() -> None:
    long: dict[str, int] = {}
    for name in ours("src/", ".py"):
        code = code_lines(name)
        for node in ast.walk(parsed(name)):
            if isinstance(node, Function):
                span = set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
                size = len((span & code) - docstring_lines(node))
                if size > FUNCTION_LINES:
                    long[f"{name}:{node.lineno} {node.name}"] = size

    assert long == {}
