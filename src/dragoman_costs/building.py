"""Puts costs together."""

from dragoman.plugin import Platform, Vertical


def build_costs(platform: Platform) -> Vertical:
    """Bind the operations of costs, and return what else a server needs of it."""
    del platform
    return Vertical()
