"""Plugins that are installed beside this package, found by their entry points and loaded once.

What a plugin is says `dragoman.plugin`; this module is below it, for the settings and the migrations, which are read
before anything is built.
"""

import importlib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Final

GROUP: Final = "dragoman.plugins"


class ExtensionError(Exception):
    """An installed plugin cannot be used; the message names it and says why."""


@cache
def installed_extensions() -> Mapping[str, Any]:
    """Return what the entry points of the group name, by their names, in the order of these.

    Raises:
        ExtensionError: one cannot be loaded, or two have the same name.
    """
    found = sorted(entry_points(group=GROUP), key=lambda one: one.name)
    names = [one.name for one in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ExtensionError(f"two installed plugins are named {twice[0]!r}: uninstall one of them")
    return {one.name: _load(one.name, one.load) for one in found}


def load_named(reference: str) -> Any:
    """Return what `module:attribute` names.

    Raises:
        ExtensionError: there is no such module or attribute, or importing it fails.
    """
    module, _, attribute = reference.partition(":")
    return _load(reference, lambda: getattr(importlib.import_module(module), attribute))


def _load(name: str, load: Any) -> Any:
    try:
        return load()
    except Exception as error:
        raise ExtensionError(f"plugins: {name!r} cannot be loaded: {type(error).__name__}: {error}") from error
