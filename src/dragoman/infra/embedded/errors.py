import errno
from pathlib import Path

# PostgreSQL reports a short write on a full disk without the words of the operating system, but with this hint.
NO_SPACE = ("No space left on device", "Check free disk space")


class EmbeddedError(Exception):
    """An embedded server cannot run here; the message tells a person why and what to do."""


class StillInUseError(EmbeddedError):
    """What a crashed server left behind has not gone yet; another try in a moment may succeed."""


def says_disk_full(said: str) -> bool:
    """Whether the words of a server that failed mean a full disk."""
    return any(words in said for words in NO_SPACE)


def disk_full(path: Path) -> EmbeddedError:
    """The words for a full disk."""
    return EmbeddedError(f"no space left on the disk that holds {path}; free about 200 MB and start again")


def from_os_error(error: OSError, path: Path) -> EmbeddedError:
    """Say what the operating system refused, in words for people; `path` is named when the error names none."""
    where = Path(str(error.filename)) if error.filename else path
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return disk_full(where)
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return EmbeddedError(
            f"{where} is not writable or not reachable ({error.strerror}); give this user access to it, "
            "or choose another data directory"
        )
    return EmbeddedError(f"{where}: {error.strerror or error}")
