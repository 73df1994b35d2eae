"""What an agent has to read: each under an address, or many under one template."""

import base64
import inspect
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from dragoman.context import Caller
from dragoman.kit._errors import ResourceNotFound
from dragoman.kit._offering import Offered, Offering
from dragoman.kit._signature import BadArguments, Signature, read_signature, run_function
from dragoman.kit._validation import to_json

_URI = re.compile(r"[a-z][a-z0-9+.-]*://\S+")
_FIELD = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Reading:
    """What stands at an address: text, or bytes."""

    uri: str
    mime: str
    data: str | bytes

    @property
    def base64(self) -> str:
        """The bytes as text."""
        data = self.data.encode() if isinstance(self.data, str) else self.data
        return base64.b64encode(data).decode("ascii")


class Resource(Offering):
    """A function behind an address. Make one with `@resource`.

    An address with `{names}` in it is a template, and the function takes what stands in their places.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        uri: str,
        *,
        name: str,
        description: str,
        mime: str = "text/plain",
        offered: Offered | None = None,
    ) -> None:
        super().__init__(offered)
        if not _URI.fullmatch(uri):
            raise ValueError(f"{uri!r} is no address: write scheme://path")
        self.uri, self.name, self.description, self.mime = uri, name, description.strip(), mime
        self._function = function
        self._signature: Signature = read_signature(function, Caller, bound=False)
        fields = _FIELD.findall(uri)
        if sorted(fields) != sorted(self._signature.names.values()):
            raise TypeError(
                f"resource {name!r}: the function must take just the names in {uri!r}, and a Caller if it likes"
            )
        self.is_template = bool(fields)
        # Every second piece is the name of a field.
        pieces = _FIELD.split(uri)
        pattern = "".join(re.escape(one) if at % 2 == 0 else f"(?P<{one}>[^/?#]+)" for at, one in enumerate(pieces))
        self._pattern = re.compile(pattern)

    def has(self, uri: str) -> bool:
        """Whether this address is its own, or one of its template's."""
        return self._pattern.fullmatch(uri) is not None

    async def read(self, uri: str, caller: Caller | None = None) -> Reading:
        """What stands there: text and bytes as they are, anything else as JSON.

        Raises:
            ResourceNotFound: the address is not one of its own, or what stands in a place does not fit.
        """
        match = self._pattern.fullmatch(uri)
        if match is None or not self.is_offered(caller):
            raise ResourceNotFound(uri)
        try:
            filled = self._signature.read({name: unquote(value) for name, value in match.groupdict().items()})
        except BadArguments:
            raise ResourceNotFound(uri) from None
        if self._signature.context_parameter:
            filled[self._signature.context_parameter] = caller
        given = await run_function(self._function, filled, tenant=caller.tenant if caller else None)
        return Reading(uri, self.mime, given if isinstance(given, str | bytes) else json.dumps(to_json(given)))

    def __repr__(self) -> str:
        return f"Resource({self.uri!r})"


def resource(
    uri: str,
    *,
    name: str | None = None,
    description: str | None = None,
    mime: str = "text/plain",
    offered: Offered | None = None,
) -> Callable[[Callable[..., Any]], Resource]:
    """Make a resource of a function; without a description its docstring is one.

    Raises:
        ValueError: the address is none.
        TypeError: the function does not take what the address names.
    """

    def make(function: Callable[..., Any]) -> Resource:
        told = description or inspect.getdoc(function) or ""
        return Resource(function, uri, name=name or function.__name__, description=told, mime=mime, offered=offered)

    return make
