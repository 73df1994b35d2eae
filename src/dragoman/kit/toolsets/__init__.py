"""Tools from elsewhere; each set is handed to a worker or a skill like any other tool."""

from dragoman.kit.toolsets._openapi import ApiKey, OpenApiToolset

__all__ = ["ApiKey", "OpenApiToolset"]
