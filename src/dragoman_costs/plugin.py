"""The record by which the core finds costs."""

from dragoman.plugin import Command, Plugin

PLUGIN = Plugin(
    name="costs",
    bindings="dragoman_costs.addresses:BINDINGS",
    settings="dragoman_costs.settings:CostSettings",
    migrations="dragoman_costs.migrations",
    commands=(Command("costs", "What clouds cost, and why.", load="dragoman_costs.cli.group:load"),),
    build="dragoman_costs.building:build_costs",
)
