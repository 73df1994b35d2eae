"""What an OAuth client is told that has no good token: where to read how to get one (RFC 9728), and for what."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resource:
    """A protected resource: where its metadata is, and the scopes that are enough to begin with."""

    metadata_path: str
    scopes: tuple[str, ...]

    def challenge(self, base_url: str, *, scopes: tuple[str, ...] | None = None) -> bytes:
        """Parameters for a `WWW-Authenticate`; `scopes` are those that this request would need."""
        wanted = " ".join(self.scopes if scopes is None else scopes)
        return f'resource_metadata="{base_url}{self.metadata_path}", scope="{wanted}"'.encode()
