"""What each operator demands of each target, on values alone."""

from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from dragoman.services.knowledge.constraints import Constraint, Dependency, Report, Rule, SourceFile, Subject
from dragoman.services.knowledge.constraints.effort import Effort, TooMuchToCheck
from dragoman.services.knowledge.constraints.engine import check, complain
from dragoman.services.knowledge.constraints.semver import read_range, read_version
from dragoman.services.knowledge.constraints.versions import within

FILES = (
    SourceFile("src/a.py", "import os\nfrom requests import get\nx = eval('1')\n"),
    SourceFile("src/deep/b.ts", "import x from 'lodash/fp';\nexport * from './c';\nconst y = require('left-pad');\n"),
    SourceFile("package.json", '{"dependencies": {\n  "lodash": "^4.17.20",\n  "react": "18.0.0"\n}}'),
    SourceFile("tsconfig.json", '{\n  // strict one day\n  "compilerOptions": {\n    "strict": false\n  }\n}'),
    SourceFile("deploy/app.yaml", "server:\n  ports:\n    - 80\n    - 8443\n"),
    SourceFile("requirements.txt", "requests==2.0  # old\nFlask_Login>=1\n"),
)


def run(subject: Subject, **constraint: Any) -> Report:
    found = Constraint.model_validate(constraint)
    assert complain(found) is None
    return check([Rule("item", "Item", found)], subject)


def places(report: Report) -> list[tuple[str | None, int | None]]:
    return [(one.place.file, one.place.line) for one in report.violations]


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ({"operator": "must_not_use", "target": "import", "pattern": "requests"}, [("src/a.py", 2)]),
        ({"operator": "must_not_use", "target": "import", "pattern": "lodash"}, [("src/deep/b.ts", 1)]),
        ({"operator": "must_not_use", "target": "import", "pattern": "src/deep/c"}, [("src/deep/b.ts", 2)]),
        ({"operator": "must_not_use", "target": "import", "pattern": "left-*"}, [("src/deep/b.ts", 3)]),
        ({"operator": "must_use", "target": "import", "pattern": "os"}, [("src/deep/b.ts", 1)]),
        ({"operator": "must_match", "target": "import", "pattern": "^os$", "applies_to": "*.py"}, [("src/a.py", 2)]),
        ({"operator": "must_not_match", "target": "import", "pattern": "pad$"}, [("src/deep/b.ts", 3)]),
        ({"operator": "must_not_use", "target": "code", "pattern": r"\beval\("}, [("src/a.py", 3)]),
        ({"operator": "must_match", "target": "code", "pattern": "^import", "applies_to": ["src/**", "!*.ts"]}, []),
        ({"operator": "must_use", "target": "code", "pattern": "Licence", "applies_to": ["src/*"]}, [("src/a.py", 1)]),
        ({"operator": "must_not_exist", "target": "file", "pattern": "deploy/"}, [("deploy/app.yaml", None)]),
        ({"operator": "must_match", "target": "file", "pattern": r"\.(py|ts|json|yaml)$"},
         [("requirements.txt", None)]),
        ({"operator": "must_not_use", "target": "dependency", "pattern": "lodash", "version": "<4.17.21"},
         [("package.json", 2)]),
        ({"operator": "must_not_use", "target": "dependency", "pattern": "lodash", "version": ">=4.18"}, []),
        ({"operator": "must_use", "target": "dependency", "pattern": "requests", "version": ">=2.31"},
         [("requirements.txt", 1)]),
        ({"operator": "must_not_use", "target": "dependency", "pattern": "flask-login"}, [("requirements.txt", 2)]),
        ({"operator": "must_match", "target": "config", "path": "compilerOptions.strict", "pattern": "^true$"},
         [("tsconfig.json", 4)]),
        ({"operator": "must_not_match", "target": "config", "path": "server.ports[*]", "pattern": "^80$"},
         [("deploy/app.yaml", 3)]),
        ({"operator": "must_use", "target": "config", "pattern": "server.tls", "applies_to": "deploy/*.yaml"},
         [("deploy/app.yaml", 1)]),
    ],
)  # fmt: skip
def test_violations_stand_where_they_are(
    constraint: dict[str, Any], expected: list[tuple[str | None, int | None]]
) -> None:
    assert places(run(Subject(FILES), **constraint)) == expected


@pytest.mark.parametrize("target", ["file", "code", "import", "dependency", "config"])
def test_what_must_exist_is_unmet_when_it_is_nowhere(target: str) -> None:
    report = run(Subject(FILES), operator="must_exist", target=target, pattern="nowhere")

    assert (len(report.violations), len(report.unmet)) == (0, 1)


@pytest.mark.parametrize(
    ("field", "constraint"),
    [
        ("pattern", {"operator": "must_match", "target": "code", "pattern": "(?=a)"}),
        ("pattern", {"operator": "must_match", "target": "code", "pattern": r"(a)\1"}),
        ("pattern", {"operator": "must_match", "target": "code", "pattern": "((a{1000}){1000}){1000}"}),
        ("pattern", {"operator": "must_exist", "target": "file", "pattern": "a{b"}),
        ("version", {"operator": "must_use", "target": "dependency", "pattern": "a", "version": "banana"}),
        ("path", {"operator": "must_match", "target": "config", "path": "a[", "pattern": "x"}),
        ("applies_to", {"operator": "must_use", "target": "code", "pattern": "x", "applies_to": ["[a"]}),
    ],
)
def test_a_constraint_that_cannot_be_held_names_its_field(field: str, constraint: dict[str, Any]) -> None:
    complaint = complain(Constraint.model_validate(constraint))

    assert complaint is not None
    assert complaint[0] == field


def test_a_catastrophic_pattern_is_linear() -> None:
    subject = Subject([SourceFile("a.txt", "a" * 100_000 + "b")])

    assert places(run(subject, operator="must_not_match", target="code", pattern="(a+)+$")) == []


def test_a_file_that_does_not_parse_still_says_what_it_imports() -> None:
    broken = SourceFile("a.py", "import os, requests as r\ndef f(:\n")

    assert places(run(Subject([broken]), operator="must_not_use", target="import", pattern="requests")) == [("a.py", 1)]


@pytest.mark.parametrize("content", ["(" * 100_000, "-" * 200_000 + "1", "a" + ".b" * 50_000, "\x00"])
def test_source_that_breaks_parsers_still_says_what_it_imports(content: str) -> None:
    broken = SourceFile("a.py", f"{content}\nimport requests\n")

    assert places(run(Subject([broken]), operator="must_not_use", target="import", pattern="requests")) == [("a.py", 2)]


PATHS = st.sampled_from(["a.py", "b.py", "src/c.py", "d.txt"])
TEXTS = st.lists(st.sampled_from(["bad", "good", "other"]), max_size=5).map("\n".join)
SUBJECTS = st.dictionaries(PATHS, TEXTS, max_size=4).map(
    lambda files: Subject([SourceFile(path, text) for path, text in files.items()])
)


@given(SUBJECTS)
def test_to_forbid_finds_every_place_and_no_other(subject: Subject) -> None:
    expected = [
        (file.path, number)
        for file in subject.files
        for number, line in enumerate(file.content.split("\n"), start=1)
        if line == "bad"
    ]

    assert places(run(subject, operator="must_not_use", target="code", pattern="^bad$")) == expected


@given(SUBJECTS)
def test_to_demand_of_every_file_and_to_forbid_in_it_are_opposites(subject: Subject) -> None:
    with_it = {file for file, _ in places(run(subject, operator="must_not_use", target="code", pattern="good"))}
    without = {file for file, _ in places(run(subject, operator="must_use", target="code", pattern="good"))}

    assert with_it | without == {file.path for file in subject.files}
    assert not with_it & without


@given(SUBJECTS, st.integers(0, 4))
def test_what_must_exist_is_unmet_of_the_whole_just_when_it_is_unmet_of_every_part(subject: Subject, cut: int) -> None:
    def unmet(files: Any) -> bool:
        return bool(run(Subject(files), operator="must_exist", target="code", pattern="good").unmet)

    assert unmet(subject.files) == (unmet(subject.files[:cut]) and unmet(subject.files[cut:]))


@pytest.mark.parametrize("target", ["file", "code"])
@given(subject=SUBJECTS)
def test_what_must_exist_is_unmet_just_when_nothing_breaks_that_it_must_not(target: str, subject: Subject) -> None:
    pattern = "a*" if target == "file" else "good"

    missing = run(subject, operator="must_exist", target=target, pattern=pattern).unmet
    there = run(subject, operator="must_not_exist", target=target, pattern=pattern).violations

    assert bool(missing) is not bool(there)


@given(SUBJECTS, st.sampled_from(["a*", "*.py", "**/b*", "src/**", "{a,b}*", "?.*"]))
def test_a_glob_and_its_negation_part_the_files_between_them(subject: Subject, glob: str) -> None:
    def chosen(*globs: str) -> set[str | None]:
        report = run(subject, operator="must_match", target="file", pattern="$never", applies_to=list(globs))
        return {file for file, _ in places(report)}

    inside, outside = chosen(glob), chosen(f"!{glob}")

    assert inside | outside == {file.path for file in subject.files}
    assert not inside & outside
    assert chosen(glob, f"!{glob}") == set()


@given(
    st.tuples(*[st.integers(0, 9)] * 3),
    st.tuples(*[st.integers(0, 9)] * 3),
    st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "~="]),
    st.sampled_from(["", "rc1", ".dev2", ".post1"]),
)
def test_ranges_of_python_are_those_of_packaging(
    low: tuple[int, ...], other: tuple[int, ...], operator: str, suffix: str
) -> None:
    wanted, version = operator + ".".join(map(str, low)), ".".join(map(str, other)) + suffix

    assert within(version, wanted, "pypi") is SpecifierSet(wanted).contains(version, prereleases=True)


@pytest.mark.parametrize(
    ("wanted", "version", "inside"),
    [
        ("^1.2.3", "1.9.0", True), ("^1.2.3", "2.0.0", False), ("^0.2.3", "0.3.0", False), ("^0.0.3", "0.0.4", False),
        ("~1.2.3", "1.2.9", True), ("~1.2", "1.3.0", False), ("1.x", "1.5.0", True), ("*", "9.9.9", True),
        (">=1 <2", "1.5.0", True), ("1 - 2.3", "2.3.9", True), ("1.2.3 - 2.3.4", "2.3.5", False),
        (">1.2", "1.2.9", False), ("<=1.2", "1.2.9", True), ("^1.2.3-beta.2", "1.2.3-beta.4", True),
        ("^1.2.3-beta.2", "1.2.4-beta.2", False), ("<1.2.3", "1.2.3-rc.1", False), ("^1 || ^3", "3.1.0", True),
        ("1.2.x || >=2.5.0 || 5.0.0 - 7.2.3", "1.2.3", True), ("~0", "0.9.9", True), ("~0", "1.0.0", False),
        ("<4.17.21", "4.17.20", True), ("x", "0.0.0", True), ("=1.2.3", "1.2.3", True), ("^0", "0.9.0", True),
    ],
)  # fmt: skip
def test_ranges_of_npm(wanted: str, version: str, inside: bool) -> None:
    assert read_range(wanted).holds(read_version(version)) is inside


@given(st.tuples(*[st.integers(0, 20)] * 3), st.tuples(*[st.integers(0, 20)] * 3))
def test_a_caret_allows_what_keeps_the_first_number_that_counts(low: tuple[int, ...], other: tuple[int, ...]) -> None:
    leading = next((place for place, number in enumerate(low) if number), 2)
    expected = other >= low and other[: leading + 1] == low[: leading + 1]

    held = read_range("^" + ".".join(map(str, low))).holds(read_version(".".join(map(str, other))))

    assert held is expected


def test_a_dependency_without_a_version_is_in_no_range_and_outside_of_none() -> None:
    subject = Subject(dependencies=[Dependency("lodash")])

    for operator in ("must_use", "must_not_use"):
        report = run(subject, operator=operator, target="dependency", pattern="lodash", version="<4")
        assert (report.violations, report.unmet) == ([], [])


@pytest.mark.parametrize("target", ["code", "import", "file"])
def test_a_check_that_takes_too_long_is_ended(target: str) -> None:
    """A thread cannot be stopped: a request with many patterns kept it for an hour."""
    found = Constraint.model_validate({"operator": "must_not_use", "target": target, "pattern": "eval"})
    ticks = count()

    with pytest.raises(TooMuchToCheck):
        check([Rule("item", "Item", found)] * 100, Subject(FILES), Effort(50, clock=lambda: next(ticks)))

    assert next(ticks) < 55
