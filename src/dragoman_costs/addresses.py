"""Which operation of costs answers at which address: each part lists its own."""

from dragoman.operations import Binding

BINDINGS: tuple[Binding, ...] = ()
