"""Very many memories, put into the database behind the server's back in the time that a benchmark has."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# The driver has no types.

import asyncio
import json
from time import perf_counter
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import numpy as np
from numpy.typing import NDArray
from tests.backstage import add_tenant, database_url, sql
from tests.harness import Server, wait_for

from dragoman.infra.ids import new_id
from dragoman.services.memory.benchmark import make_facts

PROJECT = "apollo"
# Has the few hundred things alone.
SMALL_PROJECT = "seeds"
_SCOPE = f"project\n{PROJECT}"
_MODEL = "all-MiniLM-L6-v2"
_SEEDS = "SELECT m.content, v.embedding::text FROM memories m JOIN memory_vectors v ON v.memory_id = m.id"
_GIVEN = "CREATE TEMP TABLE given (id uuid, content text)"
_MEMORIES = """
INSERT INTO memories (tenant_id, id, layer, scope, ids, content, content_sha, words, source)
SELECT $1, id, 'project', $2, jsonb_build_object('project_id', $3::text), content, sha256(convert_to(content, 'UTF8')),
       to_tsvector('english', content), '{"type": "import", "by": "bench"}' FROM given"""
# Made once at the end, they take minutes less than row by row.
_INDEXES = {
    "memories_words": "CREATE INDEX memories_words ON memories USING gin (words) WITH (fastupdate = off)",
    "memory_vectors_near": (
        "CREATE INDEX memory_vectors_near ON memory_vectors USING hnsw (embedding halfvec_cosine_ops)"
    ),
}
_COPY_HEAD, _COPY_TAIL = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
# Of each of the others; how many there are spreads them over the partitions.
_TENANT_SIZE = 20_000
_WRITERS = 2


def fill(server: Server, *, own: int, everybody: int) -> float:
    """Give the tenant demo so many memories in one project, and the rest to others; the seconds it took.

    Each says two of a few hundred things, and a number; its vector is the sum of theirs with some noise. The
    others say theirs topic by topic, which builds the graph of meanings in three quarters of the time; demo's come as
    they come.
    """
    contents, vectors = _seeds(server)
    began = perf_counter()
    demo: UUID = sql(server, "SELECT id FROM tenants WHERE slug = 'demo'")[0]["id"]
    shares = [(demo, own)]
    while (left := everybody - sum(share for _, share in shares)) > 0:
        slug = add_tenant(server)
        other: UUID = sql(server, "SELECT id FROM tenants WHERE slug = $1", slug)[0]["id"]
        shares.append((other, min(left, _TENANT_SIZE)))
    asyncio.run(_fill(database_url(server), shares, contents, vectors))
    return perf_counter() - began


def _seeds(server: Server) -> tuple[list[str], NDArray[Any]]:
    """Things to say, with the vectors that the server makes of them."""
    facts, _ = make_facts()
    new = [{"content": fact.content, "layer": "project", "ids": {"project_id": SMALL_PROJECT}} for fact in facts]
    with server.admin() as client:
        client.timeout = httpx.Timeout(120)
        for begin in range(0, len(new), 500):
            client.post("/api/memories/bulk", json={"memories": new[begin : begin + 500]}).raise_for_status()
    wait_for(lambda: not sql(server, "SELECT 1 FROM memory_pending LIMIT 1"), "the vectors", patience_s=120)
    rows = sql(server, _SEEDS)
    return [row["content"] for row in rows], np.asarray(
        [json.loads(row["embedding"]) for row in rows], dtype=np.float32
    )


async def _fill(url: str, shares: list[tuple[UUID, int]], contents: list[str], vectors: NDArray[Any]) -> None:
    connection: Any = await asyncpg.connect(url)
    await connection.execute("SET maintenance_work_mem = '4GB'")
    for name in _INDEXES:
        await connection.execute(f"DROP INDEX {name}")
    left = iter(enumerate(shares))

    async def write() -> None:
        writer: Any = await asyncpg.connect(url)
        await writer.execute("SET synchronous_commit = off")
        await writer.execute(_GIVEN)
        for place, (tenant, number) in left:
            pairs = np.random.default_rng(place).integers(len(contents), size=(number, 2))
            if place:
                pairs = pairs[np.lexsort(pairs.T[::-1])]
            await _write(writer, tenant, pairs, contents, vectors)
        await writer.close()

    await asyncio.gather(*(write() for _ in range(_WRITERS)))
    for statement in _INDEXES.values():
        await connection.execute(statement)
    await connection.execute("VACUUM ANALYZE memories, memory_vectors")
    await connection.close()


async def _write(
    connection: Any, tenant: UUID, pairs: NDArray[Any], contents: list[str], vectors: NDArray[Any]
) -> None:
    ids = [new_id() for _ in pairs]
    said = [
        (memory_id, f"{contents[one]} {contents[other]} Noted as {n}.")
        for n, (memory_id, (one, other)) in enumerate(zip(ids, pairs.tolist(), strict=True))
    ]
    await connection.copy_records_to_table("given", records=said)
    await connection.execute(_MEMORIES, tenant, _SCOPE, PROJECT)
    await connection.execute("TRUNCATE given")
    await connection.copy_to_table(
        "memory_vectors", source=_frames(tenant, ids, _mixed(vectors, pairs)), format="binary"
    )


def _mixed(vectors: NDArray[Any], pairs: NDArray[Any]) -> NDArray[Any]:
    noise = np.random.default_rng(3).normal(scale=0.02, size=(len(pairs), vectors.shape[1])).astype(np.float32)
    mixed = vectors[pairs[:, 0]] + vectors[pairs[:, 1]] + noise
    return mixed / np.linalg.norm(mixed, axis=1, keepdims=True)


async def _frames(tenant: UUID, ids: list[UUID], vectors: NDArray[Any]) -> Any:
    """Rows as PostgreSQL copies them in binary: they are all of one length."""
    scope, model, width = _SCOPE.encode(), _MODEL.encode(), vectors.shape[1]
    layout: list[tuple[str, Any]] = [("fields", ">i2")]
    fixed: dict[str, Any] = {"fields": 6}
    for name, kind, size in (
        ("tenant", "V16", 16), ("id", "V16", 16), ("version", ">i4", 4), ("scope", f"V{len(scope)}", len(scope)),
        ("model", f"V{len(model)}", len(model)), ("vector", f"V{4 + 2 * width}", 4 + 2 * width),
    ):  # fmt: skip
        layout += [(f"{name}_size", ">i4"), (name, kind)]
        fixed[f"{name}_size"] = size
    rows = np.empty(len(ids), dtype=layout)
    for name, value in fixed.items():
        rows[name] = value
    rows["tenant"], rows["scope"], rows["model"] = np.void(tenant.bytes), np.void(scope), np.void(model)
    rows["version"] = 1
    rows["id"] = np.frombuffer(b"".join(memory_id.bytes for memory_id in ids), dtype="V16")
    bodies = np.empty(len(ids), dtype=[("width", ">i2"), ("unused", ">i2"), ("numbers", ">f2", (width,))])
    bodies["width"], bodies["unused"], bodies["numbers"] = width, 0, vectors
    rows["vector"] = bodies.view(f"V{4 + 2 * width}").reshape(len(ids))
    yield _COPY_HEAD + rows.tobytes() + _COPY_TAIL
