"""Log lines for people: one compact line an event, the stack below it, nothing a value could forge."""

from typing import Any, Final, cast

_COLOURS: Final = {"DEBUG": "\x1b[2m", "INFO": "\x1b[32m", "WARNING": "\x1b[33m", "ERROR": "\x1b[31m"}
_CRITICAL: Final = "\x1b[1;31m"
_DIM: Final = "\x1b[2m"
_BOLD: Final = "\x1b[1m"
_PLAIN: Final = "\x1b[0m"

_SHOWN_APART: Final = frozenset({"severity", "time", "message", "stack_trace", "httpRequest"})
# A terminal is a laptop: what only a log store joins on is noise there.
_LEFT_OUT: Final = frozenset({"logging.googleapis.com/trace", "logging.googleapis.com/spanId", "tenant_id"})


def render(event: dict[str, Any], *, colour: bool) -> str:
    """One event as text, without the final newline."""
    severity = str(event.get("severity", "INFO"))
    when = str(event.get("time", ""))[11:23]
    head = [
        _paint(escape(when), _DIM, on=colour),
        _paint(f"{severity:<8}", _COLOURS.get(severity, _CRITICAL), on=colour),
        _paint(escape(str(event.get("message", ""))), _BOLD, on=colour),
    ]
    latency = _latency(event)
    fields = [_field(key, value, colour=colour) for key, value in event.items() if _shown(key)]
    line = " ".join(head + latency + fields)
    stack = event.get("stack_trace")
    return f"{line}\n{_indent(str(stack))}" if stack else line


def escape(text: str) -> str:
    """Text that stays on its line and commands no terminal: what is not printable is spelled out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _shown(key: str) -> bool:
    return key not in _SHOWN_APART and key not in _LEFT_OUT


def _latency(event: dict[str, Any]) -> list[str]:
    request = event.get("httpRequest")
    if not isinstance(request, dict):
        return []
    seconds = float(str(cast("dict[str, Any]", request).get("latency", "0s")).rstrip("s"))
    return [f"{seconds * 1000:.1f}ms"]


def _field(key: str, value: Any, *, colour: bool) -> str:
    text = escape(value if isinstance(value, str) else str(value))
    if not text or " " in text or '"' in text or "=" in text:
        text = '"' + text.replace('"', '\\"') + '"'
    return _paint(f"{escape(key)}=", _DIM, on=colour) + text


def _indent(stack: str) -> str:
    # The bar keeps a forged "line" inside an exception's message recognisable as part of the stack.
    return "\n".join(f"    | {escape(line)}" for line in stack.rstrip("\n").split("\n"))


def _paint(text: str, code: str, *, on: bool) -> str:
    return f"{code}{text}{_PLAIN}" if on else text
