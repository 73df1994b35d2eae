"""A server that nobody asks anything holds in memory what it needs to listen, and no more."""

import subprocess
import sys

# Each takes megabytes, and is needed by the first request that is about it.
LATER = ("cedarpy", "a2a", "google.protobuf", "mcp", "mcp_types")


def test_the_server_imports_what_only_some_requests_need_with_the_first_of_them() -> None:
    look = f"import sys, dragoman.app.serving; print([name for name in {LATER} if name in sys.modules])"

    found = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"
