"""Amounts of money: exact, and on every wire a decimal string, because a JSON number is read as a binary fraction."""

from decimal import Decimal, InvalidOperation
from typing import Annotated, Final

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_LONGEST: Final = 100


def plain(amount: Decimal) -> str:
    """Return the shortest notation without an exponent: `0.0000008`, `12`, `-3.5`."""
    text = format(amount, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _exact(value: object) -> object:
    if isinstance(value, Decimal):
        return value
    # Wires are read strictly, and text is a decimal there only as long as nothing has looked at it.
    amount = _read(value) if isinstance(value, str) else None
    if amount is None:
        raise ValueError('an amount is a decimal string, such as "12.50"')
    return amount


def _read(text: str) -> Decimal | None:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        return None
    # A long exponent would be written out as so many digits.
    fits = amount.is_finite() and len(text) <= _LONGEST and abs(amount.adjusted()) <= _LONGEST
    return amount if fits else None


Amount = Annotated[
    Decimal,
    BeforeValidator(_exact),
    PlainSerializer(plain, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^-?\d+(\.\d+)?$", "examples": ["1234.5"]}),
]
