"""Patterns that strangers write: in time linear in the text, whatever they are."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# Re2 has no types.

import re
from functools import lru_cache
from typing import Any

import re2

# Enough for any pattern a person writes; one that unfolds to more is refused.
_MOST_MEMORY = 8 << 20


class PatternRefused(Exception):
    """The pattern cannot be used; the message says why."""


def _options() -> Any:
    options = re2.Options()
    options.max_mem = _MOST_MEMORY
    options.log_errors = False
    return options


@lru_cache(maxsize=4096)
def regex(pattern: str) -> Any:
    """A regular expression over UTF-8 bytes, where ^ and $ are the ends of lines.

    Raises:
        PatternRefused: it is none, or needs what cannot be had in linear time (backreferences, looking around).
    """
    return _compiled(f"(?m){pattern}")


@lru_cache(maxsize=4096)
def path_glob(glob: str) -> Any:
    """A glob over whole paths: `*` and `?` stay within a name, `**` spans names, `{a,b}` is either.

    A glob without a slash is meant at any depth, as in a .gitignore.

    Raises:
        PatternRefused: a bracket or a brace is left open.
    """
    rooted = glob.removeprefix("./")
    anywhere = "" if "/" in rooted.rstrip("/") else "(?:.*/)?"
    rooted = rooted.removeprefix("/")
    if rooted.endswith("/"):
        rooted += "**"
    return _compiled(f"(?s)^{anywhere}{_glob_expression(rooted, within='[^/]')}$")


@lru_cache(maxsize=4096)
def name_glob(glob: str, *, separators: str = "", fold: bool = False) -> Any:
    """A glob over names; after it may follow a separator and more: `requests` is `requests.adapters` too."""
    tail = f"(?:[{re2.escape(separators)}].*)?" if separators else ""
    return _compiled(f"(?s{'i' if fold else ''})^{_glob_expression(glob, within='.')}{tail}$")


def _compiled(expression: str) -> Any:
    try:
        return re2.compile(expression.encode(), _options())
    except re2.error as error:
        reason = error.args[0] if error.args else "it cannot be read"
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise PatternRefused(f"is not a pattern that can be matched in linear time: {text}") from None


_PIECE = re.compile(r"\*\*/|\*\*|\*|\?|\[[!^]?\]?[^\]]*\]|[\[{},]|[^*?\[{},]+")


def _glob_expression(glob: str, *, within: str) -> str:
    plain = {"**/": "(?:.*/)?", "**": ".*", "*": f"{within}*", "?": within, "{": "(?:"}
    pieces: list[str] = []
    open_braces = 0
    for piece in _PIECE.findall(glob):
        if piece == "[":
            raise PatternRefused("has a [ that is never closed")
        if piece in plain:
            open_braces += piece == "{"
            pieces.append(plain[piece])
        elif open_braces and piece in "},":
            open_braces -= piece == "}"
            pieces.append(")" if piece == "}" else "|")
        elif piece.startswith("["):
            inner = piece[1:-1].replace("\\", "\\\\")
            pieces.append(f"[^{inner[1:]}]" if inner[:1] in ("!", "^") else f"[{inner}]")
        else:
            pieces.append(re2.escape(piece))
    if open_braces:
        raise PatternRefused("has a { that is never closed")
    return "".join(pieces)
