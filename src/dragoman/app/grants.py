"""Puts grants together."""

from dragoman.infra.db import Database
from dragoman.infra.ids import new_id
from dragoman.operations import Handlers
from dragoman.services.audit.statements import Statements
from dragoman.services.audit.trail import AuditTrail
from dragoman.services.grants import operations
from dragoman.services.grants.service import GrantService
from dragoman.services.grants.store import PROMISED, GrantStore


def build_grants(handlers: Handlers, db: Database, trail: AuditTrail) -> GrantService:
    """Bind the operations of grants."""
    grants = GrantService(GrantStore(db, Statements(db, trail, PROMISED)), new_id=new_id)
    handlers.add(operations.CREATE, grants.create)
    handlers.add(operations.LIST, grants.list)
    handlers.add(operations.SHOW, grants.show)
    handlers.add(operations.END, grants.end)
    return grants
