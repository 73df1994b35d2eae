"""PostgreSQL: a pool that knows whose rows it may see, units of work, migrations."""

from dragoman.infra.db.database import APP_ROLE, CORE_ROLE, Database, Scope
from dragoman.infra.db.document import document
from dragoman.infra.db.failures import Contended, PoolExhausted, UniqueViolated
from dragoman.infra.db.idempotency import IdempotencyKeys, check_key
from dragoman.infra.db.installation import find_foreign_key
from dragoman.infra.db.login import LOGIN_ROLE, find_excess, make_login
from dragoman.infra.db.migrator import MigrationError, migrate
from dragoman.infra.db.pool import NOBODY, scope_of
from dragoman.infra.db.signals import Signals
from dragoman.infra.digests import digest_of

__all__ = [
    "APP_ROLE",
    "CORE_ROLE",
    "LOGIN_ROLE",
    "NOBODY",
    "Contended",
    "Database",
    "IdempotencyKeys",
    "MigrationError",
    "PoolExhausted",
    "Scope",
    "Signals",
    "UniqueViolated",
    "check_key",
    "digest_of",
    "document",
    "find_excess",
    "find_foreign_key",
    "make_login",
    "migrate",
    "scope_of",
]
