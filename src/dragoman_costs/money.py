"""Amounts of money: exact, and on every wire a decimal string, because a JSON number is read as a binary fraction."""

from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema


def plain(amount: Decimal) -> str:
    """Return the shortest notation without an exponent: `0.0000008`, `12`, `-3.5`."""
    text = format(amount, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _exact(value: object) -> object:
    if isinstance(value, float):
        raise ValueError('an amount is a decimal string, such as "12.50"')  # noqa: TRY004 - pydantic reads ValueError
    return value


Amount = Annotated[
    Decimal,
    BeforeValidator(_exact),
    PlainSerializer(plain, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^-?\d+(\.\d+)?$", "examples": ["1234.5"]}),
]
