"""What a constraint finds in a subject, target by target."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from dragoman.services.knowledge.constraints.documents import find_values, line_of, read_path
from dragoman.services.knowledge.constraints.imports import Import
from dragoman.services.knowledge.constraints.models import (
    Constraint,
    Dependency,
    Operator,
    Place,
    SourceFile,
    Target,
)
from dragoman.services.knowledge.constraints.patterns import name_glob, path_glob, regex
from dragoman.services.knowledge.constraints.reading import Reading
from dragoman.services.knowledge.constraints.versions import PYPI, within


@dataclass(frozen=True, slots=True)
class Demand:
    """How a constraint fares: where it is broken, and whether something is missing that need only be somewhere."""

    applicable: bool
    broken: Iterable[Place] = ()
    missing: bool = False


@dataclass(frozen=True, slots=True)
class _Group:
    """What one file has: the places that fit the pattern, and those that do not."""

    file: str | None
    fitting: Iterable[Place] = ()
    unfitting: Iterable[Place] = field(default=())


def demand_of(constraint: Constraint, reading: Reading) -> Demand:
    """Hold one constraint against what was read."""
    return _TARGETS[constraint.target](constraint, reading)


def _judge(operator: Operator, groups: Iterable[_Group], *, applicable: bool) -> Demand:
    if operator.forbids:
        return Demand(applicable, (place for group in groups for place in group.fitting))
    if operator is Operator.MUST_MATCH:
        return Demand(applicable, (place for group in groups for place in group.unfitting))
    if operator is Operator.MUST_EXIST:
        return Demand(applicable=True, missing=not any(True for group in groups for _ in group.fitting))
    lacking = (Place(group.file, 1 if group.file else None) for group in groups if not any(True for _ in group.fitting))
    return Demand(applicable, lacking)


def _file(constraint: Constraint, reading: Reading) -> Demand:
    files = reading.files(constraint.applies_to)
    pattern = regex(constraint.pattern) if constraint.operator.matches else path_glob(constraint.pattern)
    fits = [pattern.search(file.path.encode()) is not None for file in files]
    groups = [
        _Group(file.path, [Place(file.path)] if fit else [], [] if fit else [Place(file.path)])
        for file, fit in zip(files, fits, strict=True)
    ]
    # That a file be used can only mean that the project has it.
    operator = Operator.MUST_EXIST if constraint.operator is Operator.MUST_USE else constraint.operator
    return _judge(operator, groups, applicable=bool(files))


def _code(constraint: Constraint, reading: Reading) -> Demand:
    files = reading.files(constraint.applies_to)
    pattern = regex(constraint.pattern)

    def places(file: SourceFile) -> Iterator[Place]:
        content, line, since = reading.bytes(file), 1, 0
        if pattern.search(content) is None:
            return
        for found in pattern.finditer(content):
            line += content.count(b"\n", since, found.start())
            since = found.start()
            yield Place(file.path, line)

    # Of a text as a whole: that it match is that it have a match.
    operator = Operator.MUST_USE if constraint.operator is Operator.MUST_MATCH else constraint.operator
    return _judge(operator, (_Group(file.path, places(file)) for file in files), applicable=bool(files))


def _import(constraint: Constraint, reading: Reading) -> Demand:
    files = reading.parsed(constraint.applies_to)
    by_regex = constraint.operator.matches
    pattern = regex(constraint.pattern) if by_regex else name_glob(constraint.pattern, separators="./")
    head = "" if by_regex else _literal_head(constraint.pattern)

    # A project imports the same few modules over and over.
    known: dict[tuple[str, ...], bool] = {}

    def fits(found: Import) -> bool:
        if (fit := known.get(found.names)) is None:
            fit = known[found.names] = any(pattern.search(name.encode()) is not None for name in found.names)
        return fit

    def group(file: SourceFile) -> _Group:
        if head and not reading.may_import(file, head):
            return _Group(file.path)
        imports = reading.imports(file)
        return _Group(
            file.path,
            (Place(file.path, one.line) for one in imports if fits(one)),
            (Place(file.path, one.line) for one in imports if not fits(one)),
        )

    groups = (group(file) for file in files)
    unplaced = [Import((name,), 0) for name in reading.subject.imports]
    if unplaced:
        loose = _Group(None, [Place() for one in unplaced if fits(one)], [Place() for one in unplaced if not fits(one)])
        groups = (group for group in (*groups, loose))
    return _judge(constraint.operator, groups, applicable=bool(files or unplaced))


def _literal_head(glob: str) -> str:
    """The first name of a glob, when it is spelled out: whoever imports it has to write it."""
    head = glob.partition("/")[0].partition(".")[0]
    return head if not set(head) & set("*?[{") else ""


def _dependency(constraint: Constraint, reading: Reading) -> Demand:
    dependencies = reading.dependencies(constraint.applies_to)
    wanted, operator = constraint.version, constraint.operator
    named = [one for one in dependencies if _is_named(constraint, one)]
    inside = [one for one in named if wanted is None or within(one.version, wanted, one.ecosystem) is True]
    if operator.forbids:
        return Demand(bool(dependencies), [reading.place(one) for one in inside])
    if operator is Operator.MUST_MATCH and wanted is None:
        others = [one for one in dependencies if not _is_named(constraint, one)]
        return Demand(bool(dependencies), [reading.place(one) for one in others])
    outside = [one for one in named if wanted is not None and within(one.version, wanted, one.ecosystem) is False]
    missing = not named and operator is not Operator.MUST_MATCH
    return Demand(bool(named) or missing, [reading.place(one) for one in outside], missing)


def _is_named(constraint: Constraint, dependency: Dependency) -> bool:
    name = dependency.name
    if constraint.operator.matches:
        return regex(constraint.pattern).search(name.encode()) is not None
    folded = name.replace("_", "-").replace(".", "-" if dependency.ecosystem == PYPI else ".")
    globs = {constraint.pattern: name, constraint.pattern.replace("_", "-"): folded}
    return any(name_glob(glob, fold=True).search(one.encode()) for glob, one in globs.items())


def _config(constraint: Constraint, reading: Reading) -> Demand:
    files = reading.settings(constraint.applies_to)
    steps = read_path(constraint.path or constraint.pattern)
    pattern = regex(constraint.pattern) if constraint.path is not None else None

    def group(documents: Iterable[object], file: SourceFile | None) -> _Group:
        fitting: list[Place] = []
        unfitting: list[Place] = []
        for document in documents:
            for found in find_values(document, steps):
                fits = pattern is None or pattern.search(found.text.encode(errors="replace")) is not None
                place = Place(file.path, line_of(file, found.steps)) if file else Place()
                (fitting if fits else unfitting).append(place)
        return _Group(file.path if file else None, fitting, unfitting)

    groups = [group(reading.documents(file), file) for file in files]
    if loose := reading.subject.config:
        groups.append(group([loose], None))
    return _judge(constraint.operator, groups, applicable=bool(groups))


_TARGETS: dict[Target, Callable[[Constraint, Reading], Demand]] = {
    Target.FILE: _file,
    Target.CODE: _code,
    Target.IMPORT: _import,
    Target.DEPENDENCY: _dependency,
    Target.CONFIG: _config,
}
