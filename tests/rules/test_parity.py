"""Every operation can be reached by every door that there is."""

import importlib
import pkgutil

import pytest
import rich_click as click

from dragoman import services
from dragoman.__main__ import PROGRAMS
from dragoman.addresses import bindings
from dragoman.doors.cli.commands import create
from dragoman.operations import AnyOperation, Operation, Recorded
from dragoman.plugin import installed_plugins

# Where what people type is not the operation's name.
TYPED = {"identity.show": ("whoami",)}
# An export or a document is one file, whatever the pieces it came in; a check reads the files itself.
READ_ELSEWHERE = {
    "costs.query": {
        "file",
        "dataset",
        "dimensions",
        "measures",
        "filters",
        "start_date",
        "end_date",
        "grain",
        "order_by",
        "limit",
        "currency",
    },
    "audit.export": {"file"},
    "document.add": {"file", "media_type", "title", "name", "document_id", "matter_id", "expected_version"},
    "document.content": {"document_id", "version", "source", "output"},
    "knowledge.check": {"path", "since", "form", "min_severity", "item_ids"},
    "memory.export": {"file", "layers", "ids"},
    "signature.verify": {"file", "document_id", "version"},
    "memory.import": {"file"},
}
# What may be read from a file instead.
BESIDE = {"knowledge.propose": {"file"}, "approval.request": {"file"}, "task.submit": {"file", "watch"}}


def declared() -> list[AnyOperation]:
    """Every operation that a service or a plugin declares."""
    found: list[AnyOperation] = []
    for module in pkgutil.walk_packages(services.__path__, "dragoman.services."):
        if module.name.rpartition(".")[2].startswith("operations"):
            named = vars(importlib.import_module(module.name)).values()
            found += [value for value in named if isinstance(value, Operation) and value not in found]
    return [*found, *(binding.operation for plugin in installed_plugins() for binding in plugin.load_bindings())]


@pytest.mark.parametrize("operation", declared(), ids=lambda operation: operation.name)
def test_an_operation_has_a_command_with_an_option_for_each_of_its_inputs(operation: AnyOperation) -> None:
    noun, verb = operation.name.split(".")
    words = TYPED.get(operation.name, (noun.replace("_", "-"), "show" if verb == "get" else verb.replace("_", "-")))

    command: click.Command = create(PROGRAMS).load(words[0])
    for word in words[1:]:
        assert isinstance(command, click.Group)
        command = command.commands[word]

    common = {"as_json", "as_tenant"}
    if operation.writes and operation.recorded is not Recorded.BATCH:
        common |= {"idempotency_key"}
    inputs = READ_ELSEWHERE.get(operation.name, set(operation.input.model_fields) | BESIDE.get(operation.name, set()))
    assert {param.name for param in command.params} == inputs | common


def test_an_operation_has_one_rest_address() -> None:
    addressed = [binding.operation.name for binding in bindings()]

    assert sorted(addressed) == sorted(operation.name for operation in declared())


def test_no_two_operations_share_an_address() -> None:
    addresses = [(binding.method, binding.path) for binding in bindings()]

    assert len(set(addresses)) == len(addresses)
