"""The command of the standalone verifier, which `bundle` puts into one file with all that it needs."""

import argparse
import sys
from pathlib import Path

from dragoman.services.audit.chain import Head
from dragoman.services.audit.export_file import ExportCheck, Unreadable, check_export, read_heads
from dragoman.services.audit.timelines import Timeline, find_related, plain

_EPILOG = """Exit codes: 0 everything fits; 1 something does not: a link, a signature, a head, or a database row that
is not as the chain says; 2 a file cannot be read as what it should be, or the command is wrong; 3 everything fits, and
no record speaks of what --show names."""


def main() -> int:
    """Check the export that the command line names, and show what it says."""
    parser = argparse.ArgumentParser(description="Verify an audit export of Dragoman, offline.", epilog=_EPILOG)
    parser.add_argument("export", help="the file that `dragoman audit export` wrote, or - for standard input")
    parser.add_argument(
        "--public-key", type=_public_key, help="the signer's Ed25519 key in hex, from a source you trust"
    )
    parser.add_argument(
        "--head",
        type=Path,
        action="append",
        default=[],
        help="heads kept elsewhere: a copy of heads.jsonl, or an earlier export; may be repeated",
    )
    parser.add_argument(
        "--show",
        metavar="WHAT",
        help="print in plain words what the records say of task/ID, approval/ID, document/ID, signature/ID or any "
        "other id, with the approvals of a task; `all` prints every record",
    )
    given = parser.parse_args()
    if given.show and given.export == "-":
        parser.error("--show reads the export twice: give it a file")
    source: str | Path = ""
    timeline: Timeline | None = None
    try:
        trusted: list[Head] = []
        for source in given.head:
            with Path(source).open("rb") as lines:
                trusted += read_heads(lines)
        source = given.export
        if given.show:
            with Path(source).open("rb") as lines:
                timeline = Timeline(find_related(lines, given.show), print)
        on_record = timeline.take if timeline is not None else None
        with sys.stdin.buffer if given.export == "-" else Path(given.export).open("rb") as lines:
            check = check_export(lines, public_key=given.public_key, trusted=trusted, on_record=on_record)
    except (OSError, Unreadable) as error:
        print(f"cannot read {source}: {error}", file=sys.stderr)  # noqa: T201 - this is a command
        return 2
    print(*_report(check, has_key=given.public_key is not None), sep="\n")  # noqa: T201
    if not check.fits:
        return 1
    if timeline is not None and not timeline.shown:
        print(f"no record of this export speaks of {plain(given.show)}")  # noqa: T201
        return 3
    return 0


def _public_key(text: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise argparse.ArgumentTypeError("it must be 64 hex digits")
    return key


def _report(check: ExportCheck, *, has_key: bool) -> list[str]:
    chain, promises = check.chain, check.promises
    lines = [f"BROKEN at link {problem.seq}: {problem.reason}" for problem in chain.problems]
    if chain.broken > len(chain.problems):
        lines.append(f"and {chain.broken - len(chain.problems)} more")
    lines += [f"CHANGED: {plain(str(found))}" for found in promises.disagreements]
    if promises.broken > len(promises.disagreements):
        lines.append(f"and {promises.broken - len(promises.disagreements)} more")
    if check.fits:
        against = f", held against {chain.trusted} trusted heads" if chain.trusted else ""
        rows = f"; {check.rows} rows agree" if check.has_rows else ""
        lines.append(f"OK: {chain.seq} records, unbroken and signed{against}{rows}")
    if chain.newer:
        newest = max(chain.newer, key=lambda head: head.seq)
        lines.append(
            f"note: a trusted head names link {newest.seq}, sealed at {newest.sealed_at}; this export was made at "
            f"{check.made_at}, and the chain went on since: hold a newer export against that head"
        )
    if check.tail:
        lines.append(
            f"note: {check.tail} records came after the signed head while the export was made; nothing proves them "
            f"yet, and {promises.left_out} rows that they wrote were not compared"
        )
    if not check.has_rows:
        lines.append("note: the export has no database rows; only the chain was checked")
    if not has_key:
        lines.append("note: no --public-key was given; the signature was checked against the key in the export itself")
    if not chain.trusted:
        lines.append("note: no --head of this tenant was given; a cut at the end cannot be found without one")
    return lines


if __name__ == "__main__":
    sys.exit(main())
