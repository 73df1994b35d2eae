"""PostgreSQL and Valkey from wheels, for a laptop; production is given URLs instead.

EmbeddedServices.start
  account, layout    as which user, where               lock         one server per data directory
  access, takeover   who may connect; files of nobody
  binaries     the programs of the wheels               leftovers    what a killed server leaves
  postgres, valkey   how each is made, started, known to be ready
  supervisor   start, watch, restart, stop              process      a child that dies with us
"""

from dragoman.infra.embedded.errors import EmbeddedError
from dragoman.infra.embedded.process import tie_to_parent, wait_for_exit
from dragoman.infra.embedded.services import EmbeddedServices

__all__ = ["EmbeddedError", "EmbeddedServices", "tie_to_parent", "wait_for_exit"]
