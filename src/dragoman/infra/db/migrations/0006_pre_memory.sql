-- why: layered memory: what was said, from when until when it held, and how it is found by its words
SET LOCAL lock_timeout = '5s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- By tenant: a large one's graph of meanings must not stand in the way of a small one's.
CREATE TABLE memories (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    version int NOT NULL DEFAULT 1,
    layer text NOT NULL,
    scope text NOT NULL,
    user_id text,
    ids jsonb NOT NULL,
    content text NOT NULL,
    content_sha bytea NOT NULL,
    words tsvector NOT NULL,
    tags text[] NOT NULL DEFAULT '{}',
    metadata jsonb NOT NULL DEFAULT '{}',
    importance real NOT NULL DEFAULT 0.5,
    turn int,
    source jsonb NOT NULL,
    accesses int NOT NULL DEFAULT 0,
    accessed_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    valid_from timestamptz NOT NULL DEFAULT now(),
    valid_to timestamptz,
    expires_at timestamptz,
    promotion text,
    PRIMARY KEY (tenant_id, id, version)
) PARTITION BY HASH (tenant_id);
COMMENT ON COLUMN memories.scope IS 'the layer and its ids in one key: whoever may name it may see what is in it';
COMMENT ON COLUMN memories.promotion IS 'what became of the last attempt to promote this version; unset when there was none';
COMMENT ON COLUMN memories.valid_to IS 'unset while it holds; a correction ends one version and begins the next';

CREATE TABLE memory_pending (
    tenant_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    version int NOT NULL,
    taken_until timestamptz,
    attempts int NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, memory_id, version)
);
COMMENT ON TABLE memory_pending IS 'versions that have no vector of the model in use yet';
CREATE INDEX memory_pending_oldest ON memory_pending (created_at);

CREATE TABLE memory_models (
    model text PRIMARY KEY,
    since timestamptz NOT NULL DEFAULT now(),
    complete boolean NOT NULL DEFAULT false
);
COMMENT ON TABLE memory_models IS 'the model whose vectors are kept: one row; a change queues every memory again';

DO $$
BEGIN
    FOR part IN 0..7 LOOP
        EXECUTE format('CREATE TABLE memories_%s PARTITION OF memories FOR VALUES WITH (MODULUS 8, REMAINDER %s)', part, part);
    END LOOP;
END $$;

CREATE UNIQUE INDEX memories_same ON memories (tenant_id, scope, content_sha) WHERE valid_to IS NULL;
CREATE UNIQUE INDEX memories_current ON memories (tenant_id, id) WHERE valid_to IS NULL;
CREATE INDEX memories_of_scope ON memories (tenant_id, scope, id);
CREATE INDEX memories_turns ON memories (tenant_id, scope, turn) WHERE turn IS NOT NULL;
CREATE INDEX memories_content ON memories (tenant_id, content_sha);
CREATE INDEX memories_words ON memories USING gin (words) WITH (fastupdate = off);

ALTER TABLE memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_pending ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_models ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON memories TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON memory_pending TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY core ON memories TO dragoman_core USING (true);
CREATE POLICY core ON memory_pending TO dragoman_core USING (true);
CREATE POLICY core ON memory_models TO dragoman_core USING (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON memories, memory_pending TO dragoman_app;
GRANT SELECT ON memories TO dragoman_core;
GRANT UPDATE (accesses, accessed_at) ON memories TO dragoman_core;
GRANT SELECT, INSERT, UPDATE, DELETE ON memory_pending, memory_models TO dragoman_core;

-- Whether a version held at a moment, and whether it fits a filter; inlined into whoever asks.
CREATE FUNCTION memory_holds(m memories, at timestamptz) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT CASE WHEN at IS NULL THEN m.valid_to IS NULL AND (m.expires_at IS NULL OR m.expires_at > now())
          ELSE m.valid_from <= at AND (m.valid_to IS NULL OR m.valid_to > at) AND (m.expires_at IS NULL OR m.expires_at > at) END $$;

CREATE FUNCTION memory_fits(m memories, wanted text[], path jsonpath) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT (wanted IS NULL OR m.tags @> wanted) AND (path IS NULL OR coalesce(jsonb_path_match(jsonb_build_object(
       'metadata', m.metadata, 'tags', to_jsonb(m.tags), 'layer', m.layer, 'importance', m.importance, 'source', m.source,
       'content', m.content, 'ids', m.ids,
       'created_at', to_char(m.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
       'valid_from', to_char(m.valid_from AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
       'expires_at', to_char(m.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
   ), path, silent => true), false)) $$;

-- Under row-level security the match of words may not reach the index, because it could tell of rows that are not ours;
-- so this runs as the owner, and takes the tenant from where row-level security takes it. A small place is read whole: by
-- the index of words it would be looked for among all that its tenant has.
CREATE FUNCTION memory_match_words(asked text, scopes text[], at timestamptz, wanted text[], path jsonpath, most int)
RETURNS TABLE (memory_id uuid, version int, score real)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan SET jit = off
SET max_parallel_workers_per_gather = 0 SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    few CONSTANT int := 8000;
    own CONSTANT uuid := current_tenant();
    there int;
BEGIN
    SELECT count(*) INTO there FROM (
        SELECT 1 FROM memories m WHERE m.tenant_id = own AND m.scope = ANY(scopes) LIMIT few + 1) s;
    RETURN QUERY
    WITH terms AS MATERIALIZED (
        SELECT t.lexeme, ('''' || replace(replace(t.lexeme, '\', '\\'), '''', '''''') || '''')::tsquery AS q
        FROM unnest(to_tsvector('english', asked)) t ORDER BY t.positions[1] LIMIT 24
    ), any_of_them AS MATERIALIZED (
        SELECT string_agg(q::text, ' | ')::tsquery AS q FROM terms
    ), whole AS MATERIALIZED (
        SELECT m.id, m.version, m.words FROM any_of_them a CROSS JOIN LATERAL (
            SELECT m.id, m.version, m.words FROM memories m
            WHERE there <= few AND m.tenant_id = own AND m.scope = ANY(scopes)
              AND memory_holds(m, at) AND memory_fits(m, wanted, path)
            OFFSET 0) m
        WHERE m.words @@ a.q
    ), hits AS MATERIALIZED (
        SELECT t.lexeme, w.id, w.version, w.words FROM terms t JOIN whole w ON w.words @@ t.q
        UNION ALL
        SELECT t.lexeme, h.id, h.version, h.words FROM terms t CROSS JOIN LATERAL (
            SELECT m.id, m.version, m.words FROM memories m
            WHERE there > few AND m.tenant_id = own AND m.words @@ t.q AND m.scope = ANY(scopes)
              AND memory_holds(m, at) AND memory_fits(m, wanted, path) LIMIT 200) h
    ), weighed AS MATERIALIZED (
        -- What is in more than 200 of many counts as if it were in exactly so many: little, beside what is rare.
        SELECT t.q, coalesce(h.df, 0) AS df,
               ln(1 + (greatest(size.n, h.df) - coalesce(h.df, 0) + 0.5::float8) / (coalesce(h.df, 0) + 0.5::float8)) AS idf
        FROM (SELECT CASE WHEN there > few THEN 200 ELSE there END AS n) size, terms t
        LEFT JOIN (SELECT lexeme, count(*) AS df FROM hits GROUP BY lexeme) h USING (lexeme)
    ), all_of_them AS (
        SELECT string_agg(q::text, ' & ')::tsquery AS q, count(*) AS n FROM weighed WHERE df > 0
    ), candidates AS MATERIALIZED (
        SELECT DISTINCT ON (f.id, f.version) f.id, f.version, f.words FROM (
            SELECT id, version, words FROM hits
            UNION ALL
            SELECT h.id, h.version, h.words FROM all_of_them a CROSS JOIN LATERAL (
                SELECT m.id, m.version, m.words FROM memories m
                WHERE there > few AND a.n > 1 AND m.tenant_id = own AND m.words @@ a.q AND m.scope = ANY(scopes)
                  AND memory_holds(m, at) AND memory_fits(m, wanted, path) LIMIT 200) h) f
    )
    SELECT c.id, c.version, (
        SELECT sum(w.idf) FILTER (WHERE c.words @@ w.q) / sum(w.idf) / (1 + 0.05 * ln(1 + length(c.words) / 12.0::float8))
        FROM weighed w)::real AS score
    FROM candidates c ORDER BY score DESC NULLS LAST, c.id DESC LIMIT most;
END $$;

REVOKE ALL ON FUNCTION memory_match_words FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memory_match_words TO dragoman_app;

CREATE OR REPLACE FUNCTION empty_tenant(gone uuid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT on_platform() THEN
        RAISE EXCEPTION 'only the platform empties a tenant' USING ERRCODE = 'insufficient_privilege';
    END IF;
    DELETE FROM api_keys WHERE tenant_id = gone;
    DELETE FROM users WHERE tenant_id = gone;
    -- They hold what was answered: names and addresses of people.
    DELETE FROM idempotency_keys WHERE tenant_id = gone;
    DELETE FROM memory_pending WHERE tenant_id = gone;
    IF to_regclass('memory_vectors') IS NOT NULL THEN
        EXECUTE 'DELETE FROM memory_vectors WHERE tenant_id = $1' USING gone;
    END IF;
    DELETE FROM memories WHERE tenant_id = gone;
END $$;
