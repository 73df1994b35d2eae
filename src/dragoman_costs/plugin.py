"""The record by which the core finds costs."""

from dragoman.plugin import Plugin

PLUGIN = Plugin(
    name="costs",
    bindings="dragoman_costs.addresses:BINDINGS",
    settings="dragoman_costs.settings:CostSettings",
    migrations="dragoman_costs.migrations",
    build="dragoman_costs.building:build_costs",
)
