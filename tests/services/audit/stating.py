"""A trail for tests that build a store by themselves."""

from dragoman.infra.db import Database
from dragoman.infra.ids import new_id
from dragoman.services.audit.rows import RowGroup
from dragoman.services.audit.statements import Statements
from dragoman.services.audit.store import AuditStore
from dragoman.services.audit.trail import AuditTrail


def make_trail(db: Database, *, mac_key: bytes = b"k" * 32) -> AuditTrail:
    """Return a trail whose sealer is somebody else's."""
    return AuditTrail(AuditStore(db), db, mac_key=mac_key, new_id=new_id, wake=lambda: None)


def make_statements(db: Database, group: RowGroup, *, mac_key: bytes = b"k" * 32) -> Statements:
    """Return what a store states its rows with."""
    return Statements(db, make_trail(db, mac_key=mac_key), group)
