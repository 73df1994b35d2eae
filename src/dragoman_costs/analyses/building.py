"""Puts anomalies, recommendations and the demo together."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from dragoman.context import Caller
from dragoman.infra.db import scope_of
from dragoman.infra.ids import new_id
from dragoman.infra.jobs import Job
from dragoman.plugin import Platform, Vertical
from dragoman.services.audit.statements import Statements
from dragoman_costs.analyses.service import Analyses
from dragoman_costs.analyses.store import AnalysisStore
from dragoman_costs.anomalies import operations as anomaly
from dragoman_costs.anomalies.service import AnomalyService
from dragoman_costs.anomalies.store import AnomalyStore
from dragoman_costs.highlights import operations as highlight
from dragoman_costs.highlights.service import Highlights
from dragoman_costs.recommendations import models as m
from dragoman_costs.recommendations import operations as o
from dragoman_costs.recommendations.executing import Executions, RecommendationResources
from dragoman_costs.recommendations.generating import Generator
from dragoman_costs.recommendations.remediation import RemediationPlanner
from dragoman_costs.recommendations.savings import SavingsService
from dragoman_costs.recommendations.service import RecommendationService
from dragoman_costs.recommendations.settings import RuleBook
from dragoman_costs.recommendations.settling import Settling
from dragoman_costs.recommendations.store import PROMISED, RecommendationStore
from dragoman_costs.recommendations.store_evidence import EvidenceStore
from dragoman_costs.recommendations.store_executing import ExecutingStore
from dragoman_costs.slices.store import SliceStore
from dragoman_costs.synthetic import operations as demo
from dragoman_costs.synthetic.loading import Demo
from dragoman_costs.synthetic.store import DemoStore


def build_highlights(platform: Platform) -> Highlights:
    """Return what a dashboard says of anomalies and savings."""
    store = RecommendationStore(platform.db, Statements(platform.db, platform.trail, PROMISED))
    return Highlights(
        AnomalyService(AnomalyStore(platform.db), publish=platform.publish, new_id=new_id),
        RecommendationService(store, new_id=new_id),
        SavingsService(store, ExecutingStore(platform.db, platform.core_db)),
    )


def build_analyses(platform: Platform) -> Vertical:
    """Bind the operations of anomalies, recommendations and the demo; return their workers, jobs and checks."""
    db, handlers = platform.db, platform.handlers
    anomalies = AnomalyService(AnomalyStore(db), publish=platform.publish, new_id=new_id)
    handlers.add(anomaly.LIST, anomalies.list)
    handlers.add(anomaly.GET, anomalies.get)
    handlers.add(anomaly.DECIDE, anomalies.decide)

    store = RecommendationStore(db, Statements(db, platform.trail, PROMISED))
    executing = ExecutingStore(db, platform.core_db)
    recommendations, rules = RecommendationService(store, new_id=new_id), RuleBook(store)
    executions = Executions(recommendations, executing, db, platform.run)
    generator = Generator(store, EvidenceStore(db), rules, db, new_id=new_id)
    analyses = Analyses(AnalysisStore(db, platform.core_db), anomalies, generator, db)

    async def configure(caller: Caller, request: m.ConfigureRule) -> m.RuleView:
        before = await rules.read(scope_of(caller))
        configured = await rules.configure(caller, request)
        if await rules.read(scope_of(caller)) != before:
            await analyses.ask(scope_of(caller))
        return configured

    handlers.add(o.LIST, recommendations.list)
    handlers.add(o.GET, recommendations.get)
    handlers.add(o.DECIDE, recommendations.decide)
    handlers.add(o.EXECUTE, executions.execute)
    handlers.add(o.SAVINGS, SavingsService(store, executing).report)
    handlers.add(o.RULES, rules.list)
    handlers.add(o.CONFIGURE, configure)

    highlights = build_highlights(platform)
    handlers.add(highlight.ANOMALIES, highlights.anomalies)
    handlers.add(highlight.RECOMMENDATIONS, highlights.recommendations)

    made_up = Demo(DemoStore(db), SliceStore(db), platform.run, analyses, new_id=new_id)
    handlers.add(demo.DEMO, made_up.request)
    settling = Settling(executing, platform.run)

    @asynccontextmanager
    async def running() -> AsyncGenerator[Sequence[Job]]:
        yield (analyses.job, settling.job) if platform.performs else ()

    return Vertical(
        workers=(RemediationPlanner(), made_up),
        resources=(RecommendationResources(recommendations, executing),),
        rows=(PROMISED,),
        running=running,
    )
