-- why: memories are found by their meaning too, where PostgreSQL can keep vectors
SET LOCAL lock_timeout = '5s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

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
    -- Nobody can say beforehand how many rows of a scope lie near: few are compared one by one, many are walked along the
    -- graph until enough of them fit. One plan a connection serves every search, because planning over the partitions
    -- takes as long as a search; as the planner knows no scopes then, sorting is priced out, which leaves it the graph.
    CREATE FUNCTION memory_match_meaning(asked halfvec, of_model text, scopes text[], at timestamptz, wanted text[], path jsonpath, most int)
    RETURNS TABLE (memory_id uuid, version int, cosine real)
    LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off SET enable_seqscan = off
    SET max_parallel_workers_per_gather = 0 AS $$
    #variable_conflict use_column
    DECLARE
        few CONSTANT int := 8000;
        own CONSTANT uuid := current_tenant();
        found int;
    BEGIN
        SELECT count(*) INTO found FROM (
            SELECT 1 FROM memory_vectors v WHERE v.tenant_id = own AND v.scope = ANY(scopes) LIMIT few + 1) s;
        IF found <= few THEN
            RETURN QUERY
            WITH compared AS MATERIALIZED (
                SELECT v.memory_id, v.version, v.embedding <=> asked AS far FROM memory_vectors v
                WHERE v.tenant_id = own AND v.scope = ANY(scopes) AND v.model = of_model
            )
            SELECT c.memory_id, c.version, (1 - c.far)::real FROM (SELECT * FROM compared ORDER BY far) c
            CROSS JOIN LATERAL (
                SELECT FROM memories m WHERE m.tenant_id = own AND m.id = c.memory_id AND m.version = c.version
                AND memory_holds(m, at) AND memory_fits(m, wanted, path) LIMIT 1) m
            ORDER BY c.far LIMIT most;
        ELSE
            PERFORM set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.ef_search', '80', true);
            RETURN QUERY
            SELECT v.memory_id, v.version, (1 - (v.embedding <=> asked))::real FROM memory_vectors v
            CROSS JOIN LATERAL (
                SELECT FROM memories m WHERE m.tenant_id = own AND m.id = v.memory_id AND m.version = v.version
                AND memory_holds(m, at) AND memory_fits(m, wanted, path) LIMIT 1) m
            WHERE v.tenant_id = own AND v.scope = ANY(scopes) AND v.model = of_model
            ORDER BY v.embedding <=> asked LIMIT most;
        END IF;
    END $$;
    REVOKE ALL ON FUNCTION memory_match_meaning FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION memory_match_meaning TO dragoman_app;
    RETURN true;
END $body$;
REVOKE ALL ON FUNCTION memory_enable_meaning FROM PUBLIC;
SELECT memory_enable_meaning();
