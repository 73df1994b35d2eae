-- why: planning a search by meaning anew each time took longer than the search; one plan, kept to the graph, serves all
SET LOCAL lock_timeout = '5s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

ALTER FUNCTION memory_enable_meaning RENAME TO memory_add_vectors;

CREATE FUNCTION memory_keep_plans() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- Without knowing the scopes the planner would sort all of them; the graph has the order already.
    ALTER FUNCTION memory_match_meaning SET plan_cache_mode = force_generic_plan;
    ALTER FUNCTION memory_match_meaning SET enable_sort = off;
    ALTER FUNCTION memory_match_meaning SET enable_seqscan = off;
END $$;

CREATE FUNCTION memory_enable_meaning() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF to_regclass('memory_vectors') IS NOT NULL THEN
        RETURN true;
    END IF;
    IF NOT memory_add_vectors() THEN
        RETURN false;
    END IF;
    PERFORM memory_keep_plans();
    RETURN true;
END $$;

REVOKE ALL ON FUNCTION memory_keep_plans, memory_enable_meaning FROM PUBLIC;
DO $$
BEGIN
    IF to_regclass('memory_vectors') IS NOT NULL THEN
        PERFORM memory_keep_plans();
    END IF;
END $$;
