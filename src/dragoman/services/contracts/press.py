"""Run as a program of its own: blocks from standard input become a PDF on standard output.

It reads one directory, the one of the layout, knows no environment and no network, and ends itself when it takes too
much time or memory: what people write cannot harm the server that sets it. Nothing of Dragoman is imported here.
"""

import json
import resource
import sys
from pathlib import Path

UNPRINTABLE = 3
_CPU_S = 60
_MEMORY_BYTES = 4 << 30


def main() -> int:
    """Set what came in; the exit code says whether words are at fault."""
    import typst  # noqa: PLC0415 - after the limits are in force

    layout = Path(sys.argv[1])
    given = sys.stdin.buffer.read().decode()
    problem = ""
    for ignore_system_fonts in (True, False):
        try:
            made = typst.compile(
                layout,
                root=layout.parent,
                sys_inputs={"given": given},
                # The fonts that come with typst first: with them the same words are the same bytes on any machine.
                ignore_system_fonts=ignore_system_fonts,
                format="pdf",
                # An archive's PDF has all it needs within it, and no glyph is missing.
                pdf_standards="a-2b",
                timestamp=0,
                package_path=layout.parent,
                package_cache_path=layout.parent,
            )
        except typst.TypstError as error:
            if "could not be displayed" not in error.message:
                raise
            problem = error.message
            continue
        sys.stdout.buffer.write(made)
        return 0
    json.dump({"problem": problem}, sys.stderr)
    return UNPRINTABLE


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    sys.exit(main())
