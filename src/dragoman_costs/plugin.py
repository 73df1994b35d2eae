"""The record by which the core finds costs."""

from dragoman.plugin import Column, Command, Plugin

PLUGIN = Plugin(
    name="costs",
    bindings="dragoman_costs.addresses:BINDINGS",
    settings="dragoman_costs.settings:CostSettings",
    migrations="dragoman_costs.migrations",
    commands=(
        Command("costs", "What clouds cost, and why.", load="dragoman_costs.cli.group:load"),
        Command("cost-rate", "Rates by which costs are converted."),
        Command("cloud-account", "Cloud accounts whose costs are imported."),
    ),
    columns={
        "cloud_account": (
            Column("id"),
            Column("provider"),
            Column("identifier"),
            Column("name", flexible=True),
            Column("status"),
            Column("credential_status", "credential"),
            Column("last_sync_at", "last sync", optional=True),
        ),
        "cost_rate": (
            Column("id"),
            Column("period"),
            Column("from_currency", "from"),
            Column("to_currency", "to"),
            Column("rate"),
            Column("set_by", "by", flexible=True, optional=True),
        ),
    },
    events={
        "cost.anomaly": "A series of costs has left the range that its past explains.",
        "budget.exceeded": "A budget is used up, or its forecast says that it will be.",
        "import.finished": "An import of billing data has ended.",
    },
    query="costs.query",
    build="dragoman_costs.building:build_costs",
)
