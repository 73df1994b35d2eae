"""One file a row of the report, in the order in which they run."""

from collections.abc import Callable
from typing import Final

from bench.rows import (
    audit,
    costs,
    delegation,
    gateway,
    handover,
    idle,
    imports,
    knowledge,
    latency,
    limiter,
    mcp,
    memory,
    messages,
    projection,
    read,
    start,
    stored,
    streams,
    sustained,
    webhooks,
    write,
)
from bench.subject import Effort
from bench.table import Outcome

ROWS: Final[dict[str, Callable[[Effort], Outcome]]] = {
    "read": read.run,
    "write": write.run,
    "messages": messages.run,
    "mcp": mcp.run,
    "delegation": delegation.run,
    "handover": handover.run,
    "stored": stored.run,
    "streams": streams.run,
    "idle": idle.run,
    "latency": latency.run,
    "sustained": sustained.run,
    "limiter": limiter.run,
    "start": start.run,
    "projection": projection.run,
    "knowledge": knowledge.run,
    "memory": memory.run,
    "audit": audit.run,
    "imports": imports.run,
    "costs": costs.run,
    "gateway": gateway.run,
    "webhooks": webhooks.run,
}
