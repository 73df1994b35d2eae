"""Defaults of inputs are cheap: pydantic makes a deep copy of one that cannot be hashed, at every validation."""

import importlib
import pkgutil
from collections.abc import Iterator

from pydantic import BaseModel

import dragoman.services
from dragoman.operations import Input


def inputs(model: type[BaseModel] = Input) -> Iterator[type[BaseModel]]:
    """Every input that there is, at any depth."""
    for one in model.__subclasses__():
        yield one
        yield from inputs(one)


def is_copied(default: object) -> bool:
    """Whether pydantic copies it: a frozen model with a list in it has no hash."""
    if not isinstance(default, BaseModel):
        return False
    try:
        hash(default)
    except TypeError:
        return True
    return False


def test_no_input_has_a_default_that_is_copied_at_every_validation() -> None:
    for module in pkgutil.walk_packages(dragoman.services.__path__, "dragoman.services."):
        if module.name.endswith(("models", "shapes", "envelope")):
            importlib.import_module(module.name)

    copied = [
        f"{model.__qualname__}.{name}: use default_factory"
        for model in inputs()
        for name, field in model.model_fields.items()
        if is_copied(field.default)
    ]

    assert copied == []
