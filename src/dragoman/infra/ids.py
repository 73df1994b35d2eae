"""Ids that sort by the time they were made (UUIDv7, RFC 9562)."""

import os
import time
from typing import Final
from uuid import UUID

_RANDOM_BYTES: Final = 8
_RANDOM_BITS: Final = (1 << 62) - 1
_DRAWN_AT_ONCE: Final = 256
_spare: list[int] = []
# Two processes must not hand out the same numbers.
os.register_at_fork(after_in_child=_spare.clear)


def new_text_id() -> str:
    """The same as text, without the detour over an object: every request has one."""
    digits = f"{_new_number():032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def new_id() -> UUID:
    """Return a fresh UUIDv7: 60 bits of time, a quarter of a microsecond fine, then 62 random ones."""
    return UUID(int=_new_number())


def _new_number() -> int:
    # Finer than a millisecond (RFC 9562, 6.2, method 3): what one process makes in a moment sorts as it was made.
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    fraction = rest * 4096 // 1_000_000
    return (milliseconds << 80) | (0x7 << 76) | (fraction << 64) | (0x2 << 62) | _random()


def _random() -> int:
    # A request needs several, and each would be a call to the system.
    try:
        return _spare.pop()
    except IndexError:
        drawn = os.urandom(_RANDOM_BYTES * _DRAWN_AT_ONCE)
        starts = range(_RANDOM_BYTES, len(drawn), _RANDOM_BYTES)
        _spare.extend(_number(drawn[start : start + _RANDOM_BYTES]) for start in starts)
        return _number(drawn[:_RANDOM_BYTES])


def _number(drawn: bytes) -> int:
    return int.from_bytes(drawn, "big") & _RANDOM_BITS
