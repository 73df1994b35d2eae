-- why: layered memory: what was said, from when until when it held, and how it is found by words and by meaning
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
    superseded_by uuid,
    PRIMARY KEY (tenant_id, id, version)
) PARTITION BY HASH (tenant_id);
COMMENT ON COLUMN memories.scope IS 'the layer and its ids in one key: whoever may name it may see what is in it';
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
CREATE INDEX memories_of_scope ON memories (tenant_id, scope, id) WHERE valid_to IS NULL;
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
-- so this runs as the owner, and takes the tenant from where row-level security takes it.
CREATE FUNCTION memory_match_words(asked text, scopes text[], at timestamptz, wanted text[], path jsonpath, most int)
RETURNS TABLE (memory_id uuid, version int, score real)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH terms AS MATERIALIZED (
        SELECT t.lexeme, ('''' || replace(replace(t.lexeme, '\', '\\'), '''', '''''') || '''')::tsquery AS q
        FROM unnest(to_tsvector('english', asked)) t ORDER BY t.positions[1] LIMIT 24
    ), hits AS MATERIALIZED (
        SELECT t.lexeme, h.id, h.version, h.words FROM terms t CROSS JOIN LATERAL (
            SELECT m.id, m.version, m.words FROM memories m
            WHERE m.tenant_id = current_tenant() AND m.words @@ t.q AND m.scope = ANY(scopes)
              AND memory_holds(m, at) AND memory_fits(m, wanted, path) LIMIT 200) h
    ), size AS MATERIALIZED (
        SELECT count(*) AS n FROM (
            SELECT 1 FROM memories m WHERE m.tenant_id = current_tenant() AND m.scope = ANY(scopes) AND m.valid_to IS NULL
            LIMIT 200) s
    ), weighed AS MATERIALIZED (
        -- What is in more than 200 of them counts as if it were in exactly so many: little, beside what is rare.
        SELECT t.q, coalesce(h.df, 0) AS df,
               ln(1 + (greatest(size.n, h.df) - coalesce(h.df, 0) + 0.5::float8) / (coalesce(h.df, 0) + 0.5::float8)) AS idf
        FROM size, terms t LEFT JOIN (SELECT lexeme, count(*) AS df FROM hits GROUP BY lexeme) h USING (lexeme)
    ), all_of_them AS (
        SELECT string_agg(q::text, ' & ')::tsquery AS q, count(*) AS n FROM weighed WHERE df > 0
    ), candidates AS MATERIALIZED (
        SELECT DISTINCT ON (f.id, f.version) f.id, f.version, f.words FROM (
            SELECT id, version, words FROM hits
            UNION ALL
            SELECT h.id, h.version, h.words FROM all_of_them a CROSS JOIN LATERAL (
                SELECT m.id, m.version, m.words FROM memories m
                WHERE a.n > 1 AND m.tenant_id = current_tenant() AND m.words @@ a.q AND m.scope = ANY(scopes)
                  AND memory_holds(m, at) AND memory_fits(m, wanted, path) LIMIT 200) h) f
    )
    SELECT c.id, c.version, (
        SELECT sum(w.idf) FILTER (WHERE c.words @@ w.q) / sum(w.idf) / (1 + 0.05 * ln(1 + length(c.words) / 12.0::float8))
        FROM weighed w)::real AS score
    FROM candidates c ORDER BY score DESC NULLS LAST, c.id DESC LIMIT most;
END $$;

REVOKE ALL ON FUNCTION memory_match_words FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memory_match_words TO dragoman_app;

-- A PostgreSQL without pgvector, or without the right to add it, serves words alone; every start asks again.
CREATE FUNCTION memory_enable_meaning() RETURNS boolean LANGUAGE plpgsql AS $body$
BEGIN
    IF to_regclass('memory_vectors') IS NOT NULL THEN
        RETURN true;
    END IF;
    BEGIN
        CREATE EXTENSION IF NOT EXISTS vector;
    EXCEPTION WHEN OTHERS THEN
        RETURN false;
    END;
    IF (SELECT string_to_array(split_part(extversion, '-', 1), '.')::int[] < ARRAY[0, 8] FROM pg_extension WHERE extname = 'vector') THEN
        RETURN false;
    END IF;
    CREATE TABLE memory_vectors (
        tenant_id uuid NOT NULL,
        memory_id uuid NOT NULL,
        version int NOT NULL,
        scope text NOT NULL,
        model text NOT NULL,
        embedding halfvec(384) NOT NULL,
        PRIMARY KEY (tenant_id, memory_id, version)
    ) PARTITION BY HASH (tenant_id);
    FOR part IN 0..7 LOOP
        EXECUTE format('CREATE TABLE memory_vectors_%s PARTITION OF memory_vectors FOR VALUES WITH (MODULUS 8, REMAINDER %s)', part, part);
    END LOOP;
    CREATE INDEX memory_vectors_of_scope ON memory_vectors (tenant_id, scope);
    CREATE INDEX memory_vectors_near ON memory_vectors USING hnsw (embedding halfvec_cosine_ops);
    ALTER TABLE memory_vectors ENABLE ROW LEVEL SECURITY;
    CREATE POLICY own ON memory_vectors TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
    CREATE POLICY core ON memory_vectors TO dragoman_core USING (true);
    GRANT SELECT, DELETE ON memory_vectors TO dragoman_app;
    GRANT SELECT, INSERT, UPDATE, DELETE ON memory_vectors TO dragoman_core;
    -- Nobody can say beforehand how many rows of a scope lie near: few are compared one by one, many are walked
    -- along the graph until enough of them fit.
    CREATE FUNCTION memory_match_meaning(asked halfvec, of_model text, scopes text[], at timestamptz, wanted text[], path jsonpath, most int)
    RETURNS TABLE (memory_id uuid, version int, cosine real)
    LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET plan_cache_mode = force_custom_plan SET jit = off
    SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    #variable_conflict use_column
    DECLARE
        few CONSTANT int := 4000;
        found int;
    BEGIN
        SELECT count(*) INTO found FROM (
            SELECT 1 FROM memory_vectors v WHERE v.tenant_id = current_tenant() AND v.scope = ANY(scopes) LIMIT few + 1) s;
        IF found <= few THEN
            RETURN QUERY
            SELECT v.memory_id, v.version, (1 - (v.embedding <=> asked))::real FROM memory_vectors v
            WHERE v.tenant_id = current_tenant() AND v.scope = ANY(scopes) AND v.model = of_model AND EXISTS (
                SELECT FROM memories m WHERE m.tenant_id = v.tenant_id AND m.id = v.memory_id AND m.version = v.version
                AND memory_holds(m, at) AND memory_fits(m, wanted, path))
            ORDER BY (v.embedding <=> asked) + 0.0 LIMIT most;
        ELSE
            PERFORM set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.ef_search', '80', true);
            RETURN QUERY
            SELECT v.memory_id, v.version, (1 - (v.embedding <=> asked))::real FROM memory_vectors v
            WHERE v.tenant_id = current_tenant() AND v.scope = ANY(scopes) AND v.model = of_model AND EXISTS (
                SELECT FROM memories m WHERE m.tenant_id = v.tenant_id AND m.id = v.memory_id AND m.version = v.version
                AND memory_holds(m, at) AND memory_fits(m, wanted, path))
            ORDER BY v.embedding <=> asked LIMIT most;
        END IF;
    END $$;
    REVOKE ALL ON FUNCTION memory_match_meaning FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION memory_match_meaning TO dragoman_app;
    RETURN true;
END $body$;
REVOKE ALL ON FUNCTION memory_enable_meaning FROM PUBLIC;
SELECT memory_enable_meaning();

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
