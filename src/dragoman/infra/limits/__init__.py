"""Rate limits and revocation, checked together, once per request."""

from dragoman.infra.limits.admission import Admission, Quotas
from dragoman.infra.limits.admitted import Admitted
from dragoman.infra.limits.headers import limit_headers
from dragoman.infra.limits.limiter import Limiter
from dragoman.infra.limits.revocations import FOREVER, Revocable, Revocation, RevocationSource
from dragoman.infra.limits.verdict import UNLIMITED, Limit, Verdict

__all__ = [
    "FOREVER",
    "UNLIMITED",
    "Admission",
    "Admitted",
    "Limit",
    "Limiter",
    "Quotas",
    "Revocable",
    "Revocation",
    "RevocationSource",
    "Verdict",
    "limit_headers",
]
