"""Rows of tenants in every table that there is, as the catalogue of the database lists them."""

from uuid import UUID

import asyncpg

from tests.infra.databases import superuser

COLUMNS = """
SELECT c.relname AS name, a.attname AS field, t.typname AS type, a.attnotnull AND NOT a.atthasdef AS needed
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
     JOIN pg_type t ON t.oid = a.atttypid
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')"""
# Made-up values by type, so that a table that is added tomorrow is tested tomorrow.
VALUES = {
    "uuid": "gen_random_uuid()", "text": "gen_random_uuid()::text", "bytea": "uuid_send(gen_random_uuid())",
    "int4": "1", "int8": "(random() * 1e15)::bigint", "timestamptz": "now()", "jsonb": "'{}'", "bool": "true",
    "_text": "'{}'", "_int4": "'{}'", "tsvector": "''", "date": "current_date", "numeric": "random()::numeric",
    "halfvec": "array_fill(1::real, ARRAY[384])::halfvec",
}  # fmt: skip


async def tenant_tables(url: str) -> dict[str, str]:
    """Every table that holds rows of tenants, and the column that says whose; a part is reached through its whole."""
    listed = """
    SELECT c.relname AS name FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition"""
    return {row["name"]: "tenant_id" for row in await superuser(url, listed)} | {"tenants": "id"}


async def fill(url: str, *tenants: UUID) -> None:
    """A row for each of the tenants in every table."""
    tables, columns = await tenant_tables(url), await superuser(url, COLUMNS)
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("SET session_replication_role = replica")
        for table, whose in tables.items():
            needed = [row for row in columns if row["name"] == table and row["needed"] and row["field"] != whose]
            names = ", ".join([whose, *(row["field"] for row in needed)])
            values = ", ".join(["$1", *(VALUES[row["type"]] for row in needed)])
            for tenant in tenants:
                await connection.execute(f"INSERT INTO {table} ({names}) VALUES ({values})", tenant)
    finally:
        await connection.close()
