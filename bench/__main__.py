"""`python -m bench [names...] [--quick]`: measure, report, keep. It reports and does not judge."""

import argparse
import sys
import time
import traceback

from rich.console import Console

from bench.machine import Machine
from bench.rows import ROWS
from bench.subject import FULL, LARGE, QUICK
from bench.table import RESULTS, keep, show


def main() -> int:
    """0 when all that was asked for was measured; 1 when a row crashed or a server answered 5xx."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"which rows: {', '.join(ROWS)} (all of them)")
    parser.add_argument("--quick", action="store_true", help="a minute instead of several; the figures are rougher")
    parser.add_argument(
        "--large",
        action="store_true",
        help="a million memories in the row memory, ten million tasks in the row stored; minutes more",
    )
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in ROWS]:
        parser.error(f"no row is named {', '.join(unknown)}; there are {', '.join(ROWS)}")
    if sys.platform != "linux":
        parser.error("CPU and memory are read from /proc: this runs on Linux only")
    console = Console(width=110 if not sys.stdout.isatty() else None)
    effort = QUICK if given.quick else LARGE if given.large else FULL
    began, failed, machine = time.perf_counter(), False, Machine()
    machine.sample("before")
    for name in given.names or ROWS:
        try:
            outcome = ROWS[name](effort)
        except Exception:  # noqa: BLE001 - the edge of the program: the other rows are still worth having
            console.print(f"[red]{name} crashed[/]\n{traceback.format_exc()}", highlight=False)
            failed = True
            continue
        finally:
            machine.sample(f"after {name}")
        failed = failed or outcome.server_errors > 0
        show(console, outcome)
        keep(name, outcome, machine)
    console.print(f"{machine.line()}; {time.perf_counter() - began:.0f} s in all; every turn is in {RESULTS}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
