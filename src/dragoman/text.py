"""Text that people type, made safe to store and to compare."""

import unicodedata
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

_ALLOWED_CONTROLS = {"\n", "\t"}


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
        if character in "\n\t" or unicodedata.category(character) in ("Cf", "Co", "Cn", "Zl", "Zp"):
            raise ValueError(f"must not contain the invisible character U+{ord(character):04X}")
    folded = " ".join(folded.split())
    if not folded:
        raise ValueError("must not be blank")
    return folded


def clean_email(value: str) -> str:
    """Compare addresses without regard to case; their exact grammar is the mail server's business."""
    folded = clean_name(value).lower()
    local, at, domain = folded.rpartition("@")
    if not (at and local and domain) or " " in folded or domain.startswith(".") or domain.endswith("."):
        raise ValueError("must be an e-mail address such as ada@example.com")
    return folded


Text = Annotated[str, AfterValidator(clean)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(clean_name)]
Email = Annotated[str, StringConstraints(min_length=3, max_length=254), AfterValidator(clean_email)]
Slug = Annotated[str, StringConstraints(min_length=2, max_length=63, pattern=r"^[a-z0-9](?:[a-z0-9-]*[a-z0-9])$")]
