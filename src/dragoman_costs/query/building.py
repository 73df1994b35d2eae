"""Puts queries together."""

from dragoman.plugin import Platform, Vertical
from dragoman_costs.query import operations
from dragoman_costs.query.service import QueryService
from dragoman_costs.query.store import CostReader
from dragoman_costs.settings import CostSettings
from dragoman_costs.skill import CostsSkill


def build_reader(platform: Platform) -> CostReader:
    """Return what reads the costs of a tenant within the limits of the settings."""
    settings = platform.section(CostSettings)
    return CostReader(platform.db, most_rows=settings.max_query_rows, timeout_s=settings.query_timeout_s)


def build_query(platform: Platform) -> Vertical:
    """Bind the operations of queries."""
    service = QueryService(build_reader(platform))
    platform.handlers.add(operations.QUERY, service.query)
    platform.handlers.add(operations.SCHEMA, service.schema)
    return Vertical(skills={"costs": CostsSkill})
