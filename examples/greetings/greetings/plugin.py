"""The record by which Dragoman finds this plugin."""

from dragoman.plugin import Column, Command, Plugin

PLUGIN = Plugin(
    name="greetings",
    bindings="greetings.operations:BINDINGS",
    settings="greetings.settings:GreetingSettings",
    migrations="greetings.migrations",
    commands=(Command("greeting", "What is said to whom."),),
    columns={"greeting": (Column("name", flexible=True), Column("words", flexible=True))},
    publishes={"greeting.said": "Somebody was greeted."},
    build="greetings.building:build",
)
