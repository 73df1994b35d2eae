"""Which requirement is shown by which test: `@pytest.mark.req("GW-004", "GW-401")`.

The ids are those of docs/requirements.tsv; any other id is a collection error. At the end of a whole run a section
says what is shown and what is not; a run of a part of the suite says it in one line.
"""

import re
import textwrap
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

import pytest

WIDTH = 100
LIST = Path("docs", "requirements.tsv")
PROPERTY = "requirement"


class Standing(StrEnum):
    """How a requirement stands after a run; the values are the words of the report."""

    FAILING = "FAILING"
    SKIPPED = "skipped"
    SHOWN = "shown"
    NOT_YET = "not yet"


def read_requirements(path: Path) -> list[str]:
    """The ids in the order of the file.

    Raises:
        ValueError: a line has not three filled columns, or an id stands there twice.
    """
    ids: list[str] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()[1:], start=2):
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) != 3 or not all(columns):
            raise ValueError(f"{path}:{number}: expected id, area and what must be true, separated by tabs")
        if columns[0] in ids:
            raise ValueError(f"{path}:{number}: {columns[0]} is listed twice")
        ids.append(columns[0])
    return ids


def compact(ids: Iterable[str]) -> list[str]:
    """Join neighbours into ranges: `GW-001`, `GW-002`, `GW-Q1` become `001..002`, `Q1` (the prefix is the group's)."""
    runs: list[tuple[str, str, str]] = []
    for requirement in ids:
        stem, number = _split(requirement.partition("-")[2])
        if runs and runs[-1][0] == stem and int(number) == int(runs[-1][2]) + 1:
            runs[-1] = (stem, runs[-1][1], number)
        else:
            runs.append((stem, number, number))
    return [stem + (first if first == last else f"{first}..{last}") for stem, first, last in runs]


def _split(name: str) -> tuple[str, str]:
    match = re.fullmatch(r"(.*?)(\d+)", name)
    if match is None:
        raise ValueError(f"the requirement {name!r} does not end in a number")
    return match[1], match[2]


class Ledger:
    """What each requirement's tests did; no pytest in here."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._outcomes: dict[str, set[str]] = {requirement: set() for requirement in ids}

    def __contains__(self, requirement: str) -> bool:
        return requirement in self._outcomes

    def note(self, ids: Iterable[str], outcome: str) -> None:
        """Remember that a test of these requirements has passed, failed or was skipped."""
        for requirement in ids:
            self._outcomes[requirement].add(outcome)

    def standing(self, requirement: str) -> Standing:
        """One failure outweighs every pass; one pass outweighs every skip."""
        outcomes = self._outcomes[requirement]
        if "failed" in outcomes:
            return Standing.FAILING
        if "passed" in outcomes:
            return Standing.SHOWN
        return Standing.SKIPPED if outcomes else Standing.NOT_YET

    def headline(self) -> str:
        """The count, in one line."""
        return f"requirements: {len(self._with(Standing.SHOWN))} of {len(self._outcomes)} shown by a passing test"

    def troubles(self) -> str:
        """What fails or is only skipped, in the same line as the headline; empty when all is well."""
        parts = [
            f"; {standing}: {', '.join(ids)}"
            for standing in (Standing.FAILING, Standing.SKIPPED)
            if (ids := self._with(standing))
        ]
        return "".join(parts)

    def table(self) -> Iterator[tuple[Standing, str]]:
        """Lines of at most WIDTH columns: per prefix what is shown, not yet shown, failing, skipped."""
        groups: dict[str, list[str]] = {}
        for requirement in self._outcomes:
            groups.setdefault(requirement.partition("-")[0], []).append(requirement)
        for prefix, ids in groups.items():
            yield from self._group(prefix, ids)

    def _group(self, prefix: str, ids: list[str]) -> Iterator[tuple[Standing, str]]:
        shown = set(self._with(Standing.SHOWN))
        lead = f"{prefix:<5}{len(shown.intersection(ids)):>3} of {len(ids):<4}"
        for standing in (Standing.SHOWN, Standing.NOT_YET, Standing.FAILING, Standing.SKIPPED):
            names = compact(requirement for requirement in ids if self.standing(requirement) is standing)
            if names:
                start = f"{lead}{standing:<9}"
                yield from ((standing, line) for line in _wrap(names, start))
                lead = " " * len(lead)

    def _with(self, standing: Standing) -> list[str]:
        return [requirement for requirement in self._outcomes if self.standing(requirement) is standing]


def _wrap(names: Collection[str], start: str) -> list[str]:
    return textwrap.wrap(
        ", ".join(names),
        WIDTH,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )


class Requirements:
    """The pytest side: reads the markers, follows the reports, prints the section."""

    def __init__(self, config: pytest.Config, ledger: Ledger) -> None:
        self._config = config
        self._ledger = ledger
        self._deselected = False

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        wrong = [line for node in report.result or () if isinstance(node, pytest.Item) for line in self._mistakes(node)]
        if wrong:
            report.outcome, report.longrepr, report.result = "failed", "\n".join(wrong), []
        return report

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        # What only `make test-all` runs is no part of the suite that this table is about.
        self._deselected |= any(item.get_closest_marker("external") is None for item in items)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        # With the item, so that they reach the process that reports from the one that ran it.
        for item in session.items:
            item.user_properties += [(PROPERTY, requirement) for requirement in _ids_of(item)]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # A set-up or a tear-down that passes shows nothing; one that fails or skips speaks for its test.
        if report.when == "call" or not report.passed:
            ids = [str(value) for name, value in report.user_properties if name == PROPERTY]
            self._ledger.note(ids, report.outcome)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._config.option.collectonly or self._config.get_verbosity() < -1:
            return
        if not self._whole_suite():
            terminalreporter.write_line(self._ledger.headline() + self._ledger.troubles())
            return
        terminalreporter.section("requirements")
        terminalreporter.write_line(self._ledger.headline())
        for standing, line in self._ledger.table():
            terminalreporter.write_line(line, red=standing is Standing.FAILING, yellow=standing is Standing.SKIPPED)

    def _mistakes(self, item: pytest.Item) -> Iterator[str]:
        for mark in item.iter_markers("req"):
            if not mark.args or mark.kwargs:
                yield f"{item.nodeid}: req takes the ids of requirements, and nothing else"
        for requirement in _ids_of(item):
            if requirement not in self._ledger:
                yield f"{item.nodeid}: {LIST.as_posix()} has no requirement {requirement!r}"

    def _whole_suite(self) -> bool:
        if self._deselected or self._config.getoption("lf", default=False):
            return False
        whole = {self._config.rootpath, *(self._config.rootpath / path for path in self._config.getini("testpaths"))}
        asked = {(self._config.invocation_params.dir / argument).resolve() for argument in self._config.args}
        return asked <= {path.resolve() for path in whole}


def _ids_of(item: pytest.Item) -> Iterator[str]:
    for mark in item.iter_markers("req"):
        yield from mark.args


def pytest_configure(config: pytest.Config) -> None:
    try:
        ids = read_requirements(config.rootpath / LIST)
    except (OSError, ValueError) as error:
        raise pytest.UsageError(str(error)) from error
    config.pluginmanager.register(Requirements(config, Ledger(ids)), "dragoman-requirements")
