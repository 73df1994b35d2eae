"""Ids that sort by the time they were made (UUIDv7, RFC 9562)."""

import os
import time
from uuid import UUID


def new_text_id() -> str:
    """The same as text, without the detour over an object: every request has one."""
    value = (time.time_ns() // 1_000_000 << 80) | int.from_bytes(os.urandom(10), "big")
    value = (value & ~(0xF << 76) & ~(0x3 << 62)) | (0x7 << 76) | (0x2 << 62)
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def new_id() -> UUID:
    """A fresh UUIDv7: 48 bits of milliseconds, then 74 random ones."""
    value = int.from_bytes(os.urandom(10), "big")
    value |= (time.time_ns() // 1_000_000) << 80
    value = (value & ~(0xF << 76)) | (0x7 << 76)
    value = (value & ~(0x3 << 62)) | (0x2 << 62)
    return UUID(int=value)
