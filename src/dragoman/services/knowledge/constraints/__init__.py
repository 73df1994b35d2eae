"""What knowledge demands of code, and whether it is met: pure functions over values, no server and no store.

    check(rules, subject) -> Report

`rules` are constraints with the item that demands them, `subject` is what is looked at: files, dependencies and
settings. The engine is imported when it is first needed (`from ...constraints.engine import check`): its libraries
are an extra, and an idle server does not hold them in memory.
"""

from dragoman.services.knowledge.constraints.models import (
    RANK,
    Constraint,
    Dependency,
    Operator,
    Place,
    Report,
    Rule,
    Severity,
    SourceFile,
    Subject,
    Target,
    Violation,
)

__all__ = [
    "RANK",
    "Constraint",
    "Dependency",
    "Operator",
    "Place",
    "Report",
    "Rule",
    "Severity",
    "SourceFile",
    "Subject",
    "Target",
    "Violation",
]
