"""A server with this on its path gives whoever waits for a task the task as it is after half a second.

The request itself keeps its minute, so that a busy machine has time enough to answer.
"""

from dragoman.infra.config import Settings

Settings.longest_wait_s = property(lambda _: 0.5)  # pyright: ignore[reportAttributeAccessIssue]
