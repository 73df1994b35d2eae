"""Rate limits and revocation, checked together, once per request."""

from dragoman.infra.limits.admission import Admission, Quotas
from dragoman.infra.limits.admitted import Admitted
from dragoman.infra.limits.headers import limit_headers
from dragoman.infra.limits.limiter import Limiter
from dragoman.infra.limits.networks import network_of
from dragoman.infra.limits.revocations import FOREVER, PLATFORM, Revocable, Revocation, RevocationSource
from dragoman.infra.limits.streams import CallerWatch, OpenStreams, StreamCaps
from dragoman.infra.limits.verdict import UNLIMITED, Limit, Verdict

__all__ = [
    "FOREVER",
    "PLATFORM",
    "UNLIMITED",
    "Admission",
    "Admitted",
    "CallerWatch",
    "Limit",
    "Limiter",
    "OpenStreams",
    "Quotas",
    "Revocable",
    "Revocation",
    "RevocationSource",
    "StreamCaps",
    "Verdict",
    "limit_headers",
    "network_of",
]
