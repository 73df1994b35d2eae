"""The record by which the core finds costs."""

from dragoman.plugin import Column, Command, Plugin

PLUGIN = Plugin(
    name="costs",
    bindings="dragoman_costs.addresses:BINDINGS",
    settings="dragoman_costs.settings:CostSettings",
    migrations="dragoman_costs.migrations",
    commands=(
        Command("costs", "What clouds cost, and why.", load="dragoman_costs.cli.group:load"),
        Command("cloud-account", "Cloud accounts whose costs are imported."),
        Command("cost-rate", "Rates by which costs are converted."),
        Command("budget", "What may be spent, and how far it is."),
        Command("budget-alert", "Thresholds of budgets that were reached."),
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
        "budget": (
            Column("id"),
            Column("name", flexible=True),
            Column("amount"),
            Column("currency"),
            Column("period"),
            Column("evaluated_at", "evaluated", optional=True),
        ),
        "budget_alert": (
            Column("id"),
            Column("budget_name", "budget", flexible=True),
            Column("kind"),
            Column("threshold", "%"),
            Column("reached"),
            Column("budgeted", "of"),
            Column("currency", ""),
            Column("period_start", "period", optional=True),
            Column("acknowledged_by", "seen by", flexible=True, optional=True),
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
    publishes={
        "cost.anomaly": "A series of costs has left the range that its past explains.",
        "budget.exceeded": "Spend, or its forecast, has reached a threshold of a budget.",
        "import.finished": "An import of billing data has ended.",
    },
    query="costs.query",
    build="dragoman_costs.building:build_costs",
)
