"""What must not leave a private layer: credentials, and what identifies or reaches a person.

Found by its shape, not by its sense: a name or a diagnosis has none. Policies are there for those.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from dragoman.infra.telemetry.redaction import redact, redact_text

_WORD: Final = re.compile(r"[^\W\d_]{2,}")
_PLACEHOLDER: Final = re.compile(r"\[(?:\w+ )?redacted\]")
# Fewer words than this around what was taken out say nothing to anybody.
_FEWEST_WORDS: Final = 3


@dataclass(frozen=True, slots=True)
class _Shape:
    """Something to be taken out; `real` tells it from what only looks alike."""

    kind: str
    pattern: re.Pattern[str]
    real: Callable[[str], bool] = lambda _: True


@dataclass(frozen=True, slots=True)
class Cleared:
    """What may be shown to others, and the kinds of what was taken out, in alphabetical order."""

    content: str
    metadata: dict[str, Any]
    tags: list[str]
    kinds: list[str]

    @property
    def says_nothing(self) -> bool:
        """Whether hardly anything is left beside what was taken out."""
        return bool(self.kinds) and len(_WORD.findall(_PLACEHOLDER.sub(" ", self.content))) < _FEWEST_WORDS


def clear(content: str, metadata: dict[str, Any], tags: list[str]) -> Cleared:
    """The same without credentials, addresses, telephone numbers and numbers of accounts, cards and insurances.

    A tag that holds one goes whole.
    """
    kinds: set[str] = set()
    cleared = _clear_text(content, kinds)
    shown = redact(metadata)
    if shown != metadata:
        kinds.add("secret")
    shown = _clear_data(shown, kinds)
    kept = [tag for tag in tags if _clear_text(tag, kinds) == tag]
    return Cleared(cleared, cast("dict[str, Any]", shown), kept, sorted(kinds))


def _clear_data(value: Any, kinds: set[str]) -> Any:
    if isinstance(value, str):
        return _clear_text(value, kinds)
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {_clear_text(key, kinds): _clear_data(item, kinds) for key, item in items}
    if isinstance(value, list):
        return [_clear_data(item, kinds) for item in cast("list[Any]", value)]
    return value


def _clear_text(text: str, kinds: set[str]) -> str:
    # Addresses first: what stands before the @ of one may look like a credential in the address of a server.
    for shape in _SHAPES:
        text = _without(text, shape, kinds)
    cleared = redact_text(text)
    if cleared != text:
        kinds.add("secret")
    return cleared


def _without(text: str, shape: _Shape, kinds: set[str]) -> str:
    def blank(match: re.Match[str]) -> str:
        if not shape.real(match[0]):
            return match[0]
        kinds.add(shape.kind)
        return f"[{shape.kind} redacted]"

    return shape.pattern.sub(blank, text)


def _is_card(found: str) -> bool:
    """By the check digit that every card has (Luhn)."""
    digits = [int(one) for one in found if one.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return len(digits) >= 13 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_account(found: str) -> bool:
    """By the check digits that every IBAN has (modulo 97)."""
    plain = found.replace(" ", "")
    turned = plain[4:] + plain[:4]
    return len(plain) >= 15 and int("".join(str(int(one, 36)) for one in turned)) % 97 == 1


_SHAPES: Final = (
    # Of providers that give their keys a form of their own.
    _Shape(
        "secret",
        re.compile(
            r"\b(?:AKIA[0-9A-Z]{16}|gh[opsur]_[A-Za-z0-9]{20,255}|github_pat_\w{20,255}|glpat-[\w-]{20,255}"
            r"|xox[abeprs]-[\w-]{10,255}|sk-[\w-]{20,255}|AIza[\w-]{35})"
        ),
    ),
    _Shape("email", re.compile(r"(?<![\w.+%:/-])[\w.+%-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,5}\b")),
    _Shape("account", re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b"), _is_account),
    _Shape("card", re.compile(r"(?<![\w-])\d(?:[ -]?\d){12,18}(?![\w-])"), _is_card),
    _Shape("insurance", re.compile(r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])")),
    _Shape(
        "phone",
        re.compile(
            r"(?<!\w)(?:\+|00)[1-9]\d{0,2}(?:[ ()./-]{0,2}\d){6,12}(?!\w)"
            r"|(?<![\w-])(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}(?![\w-])"
        ),
    ),
)
