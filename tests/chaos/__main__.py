"""`make chaos SEED=7 FAULTS=300`: a chaos run by hand; it ends with 1 when any check of it finds a violation."""

import argparse
import sys
from pathlib import Path

from tests.chaos.siege import Plan, Siege


def main() -> int:
    """Run it, and print how it goes and what it showed."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Injects faults into an installation.")
    parser.add_argument("--seed", type=int, default=7, help="chooses the faults; the same seed gives the same faults")
    parser.add_argument("--faults", type=int, default=300, help="how many")
    parser.add_argument("--longest", type=float, default=10.0, help="the longest pause or partition, in seconds")
    parser.add_argument("--keep", type=Path, help="where to put the logs of a run that found a violation")
    asked = parser.parse_args()
    plan = Plan(seed=asked.seed, faults=asked.faults, longest_s=asked.longest)
    outcome = Siege(plan, lambda line: print(line, flush=True), keep=asked.keep).run()
    print(outcome.table())
    return 0 if outcome.good else 1


if __name__ == "__main__":
    sys.exit(main())
