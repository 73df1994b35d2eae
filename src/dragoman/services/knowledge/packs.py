"""Between the rows and a directory: pack files are put into the cache, and what was written there becomes one.

A cache holds what the rows hold, and more: objects of writes that were rolled back, and of fetches that were not
merged. No branch of the rows reaches those.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from time import time
from typing import Final

import pygit2
from pygit2.enums import ObjectType, SortMode

from dragoman.services.knowledge.store_git import PREFIX, Pack

# Another process of this directory may still be about to open a pack that was merged into another one.
_SPARED_S: Final = 600
_HEADER, _FAN_OUT, _ID_BYTES = 8, 256 * 4, 20


def install(repository: Path, packs: Sequence[Pack]) -> None:
    """Put the packs that came with their bytes into the cache, and take out those that the rows no longer have."""
    folder, wanted = _folder(repository), {PREFIX + pack.name for pack in packs}
    for pack in packs:
        if pack.data is not None:
            # Git looks for a pack where it finds an index.
            for suffix, data in zip((".pack", ".idx"), pack.data, strict=True):
                _write(folder / f"{PREFIX}{pack.name}{suffix}", data)
    for index in folder.glob(f"{PREFIX}*.idx"):
        if index.stem not in wanted and time() - index.stat().st_mtime > _SPARED_S:
            index.unlink(missing_ok=True)
            index.with_suffix(".pack").unlink(missing_ok=True)


def packed(
    git: pygit2.Repository, tips: Iterable[str], known: Iterable[str], packs: Sequence[Pack]
) -> tuple[Pack | None, list[str]]:
    """Pack what the tips reach and the known commits do not, with the small packs that it replaces.

    A pack takes in others until the next one is twice as large: so there are few, and an object is rarely copied.
    """
    objects = set(_new_objects(git, list(tips), list(known)))
    if not objects:
        return None, []
    replaced: list[str] = []
    for pack in sorted(packs, key=lambda one: one.objects):
        if pack.objects >= 2 * len(objects):
            break
        objects.update(_listed(_folder(Path(git.path)) / f"{PREFIX}{pack.name}.idx"))
        replaced.append(pack.name)
    with TemporaryDirectory(prefix=".pack-", dir=git.path) as folder:
        builder = pygit2.PackBuilder(git)
        for one in sorted(objects):
            builder.add(pygit2.Oid(raw=one))
        builder.write(folder)
        index = next(Path(folder).glob("*.idx"))
        data = index.with_suffix(".pack").read_bytes(), index.read_bytes()
        return Pack(index.stem.removeprefix("pack-"), len(objects), data), replaced


def _new_objects(git: pygit2.Repository, tips: Sequence[str], known: Sequence[str]) -> Iterator[bytes]:
    if not tips:
        return
    walk = git.walk(None, SortMode.TOPOLOGICAL)
    for tip in tips:
        walk.push(pygit2.Oid(hex=tip))
    for commit in known:
        walk.hide(pygit2.Oid(hex=commit))
    seen: set[bytes] = set()
    for commit in walk:
        yield commit.id.raw
        yield from _new_in_tree(git, commit.tree, [parent.tree for parent in commit.parents], seen)


def _new_in_tree(
    git: pygit2.Repository, tree: pygit2.Tree, before: Sequence[pygit2.Tree], seen: set[bytes]
) -> Iterator[bytes]:
    """The tree and what is below it, without what stands in the same place before."""
    if tree.id.raw in seen or any(one.id == tree.id for one in before):
        return
    seen.add(tree.id.raw)
    yield tree.id.raw
    earlier: list[Mapping[str | None, pygit2.Object]] = [{one.name: one for one in old} for old in before]
    for entry in tree:
        there = [old[entry.name] for old in earlier if entry.name in old]
        if entry.type == ObjectType.TREE:
            trees = [one for one in there if isinstance(one, pygit2.Tree)]
            if isinstance(entry, pygit2.Tree):
                yield from _new_in_tree(git, entry, trees, seen)
        # A submodule is a commit of another repository.
        elif entry.type == ObjectType.BLOB and all(one.id != entry.id for one in there):
            yield entry.id.raw


def _listed(index: Path) -> Iterator[bytes]:
    """The ids in an index of a pack: version 2, as git has written it since 2008."""
    data = index.read_bytes()
    start = _HEADER + _FAN_OUT
    (count,) = struct.unpack(">I", data[start - 4 : start])
    return (data[start + at * _ID_BYTES : start + (at + 1) * _ID_BYTES] for at in range(count))


def _write(path: Path, data: bytes) -> None:
    # Beside the objects: a fetch removes files among the packs that are none.
    with NamedTemporaryFile(prefix=".new-", dir=path.parents[2], delete=False) as file:
        file.write(data)
    Path(file.name).rename(path)


def _folder(repository: Path) -> Path:
    return repository / "objects" / "pack"
