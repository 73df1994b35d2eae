"""Text that people type, made safe to store and to compare."""

import unicodedata
from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

_LONGEST_NAME, _LONGEST_EMAIL = 200, 254
_ALLOWED_CONTROLS = {"\n", "\t"}
# Letters, marks and symbols by category that show nothing: two names that differ by one of them look the same.
_BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
# They choose between shapes of the character before, which a name may want and an address may not.
_VARIATION_SELECTORS = frozenset(map(chr, [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]))


def clean(value: str) -> str:
    """Refuse control characters (but newline and tab) and normalise to NFC, so that equal text is equal bytes."""
    for character in value:
        category = unicodedata.category(character)
        if (category == "Cc" and character not in _ALLOWED_CONTROLS) or category == "Cs":
            raise ValueError(f"must not contain the control character U+{ord(character):04X}")
    return unicodedata.normalize("NFC", value)


def clean_name(value: str) -> str:
    """One line, NFKC (look-alike letters fold together), no invisible characters, no outer or doubled blanks."""
    folded = unicodedata.normalize("NFKC", clean(value))
    for character in folded:
        invisible = unicodedata.category(character) in ("Cf", "Co", "Cn", "Zl", "Zp")
        if invisible or character in "\n\t" or character in _BLANKS:
            raise ValueError(f"must not contain the invisible character U+{ord(character):04X}")
    folded = " ".join(folded.split())
    if not folded:
        raise ValueError("must not be blank")
    return folded


def clean_email(value: str) -> str:
    """Compare addresses without regard to case; their exact grammar is the mail server's business."""
    folded = clean_name(value).lower()
    local, at, domain = folded.rpartition("@")
    unfit = " " in folded or "@" in local or not _VARIATION_SELECTORS.isdisjoint(folded)
    if not (at and local and domain) or unfit or domain.startswith(".") or domain.endswith("."):
        raise ValueError("must be an e-mail address such as ada@example.com")
    return folded


def _at_most(length: int) -> Callable[[str], str]:
    """Folding makes some text longer: one Arabic ligature becomes eighteen letters."""

    def check(value: str) -> str:
        if len(value) > length:
            raise ValueError(f"must have at most {length} characters once look-alikes are folded")
        return value

    return check


Text = Annotated[str, AfterValidator(clean)]
Name = Annotated[
    str,
    StringConstraints(min_length=1, max_length=_LONGEST_NAME),
    AfterValidator(clean_name),
    AfterValidator(_at_most(_LONGEST_NAME)),
]
Email = Annotated[
    str,
    StringConstraints(min_length=3, max_length=_LONGEST_EMAIL),
    AfterValidator(clean_email),
    AfterValidator(_at_most(_LONGEST_EMAIL)),
]
# What a credential calls its bearer: a name, or the address of a user.
Subject = Annotated[
    str,
    StringConstraints(min_length=1, max_length=_LONGEST_EMAIL),
    AfterValidator(clean_name),
    AfterValidator(_at_most(_LONGEST_EMAIL)),
]
Slug = Annotated[str, StringConstraints(min_length=2, max_length=63, pattern=r"^[a-z0-9](?:[a-z0-9-]*[a-z0-9])$")]
