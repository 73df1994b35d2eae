-- why: what is known is found by its meaning too; a document has one vector, on whichever branches and paths it stands
SET LOCAL lock_timeout = '5s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE TABLE knowledge_pending (
    tenant_id uuid NOT NULL,
    blob text NOT NULL,
    taken_until timestamptz,
    attempts int NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, blob)
);
COMMENT ON TABLE knowledge_pending IS 'documents that have no vector of the model in use yet';
CREATE INDEX knowledge_pending_oldest ON knowledge_pending (created_at);
CREATE INDEX knowledge_items_blob ON knowledge_items (tenant_id, blob);

ALTER TABLE knowledge_pending ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON knowledge_pending TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY core ON knowledge_pending TO dragoman_core USING (true);
CREATE POLICY core ON knowledge_items TO dragoman_core USING (true);
GRANT SELECT, INSERT ON knowledge_pending TO dragoman_app;
GRANT SELECT ON knowledge_items TO dragoman_core;
GRANT SELECT, INSERT, UPDATE, DELETE ON knowledge_pending TO dragoman_core;

-- Memory finds out whether this PostgreSQL has the pgvector that is needed. A tenant's documents are few enough to be
-- compared one by one, so there is no graph.
CREATE FUNCTION knowledge_enable_meaning() RETURNS boolean LANGUAGE plpgsql AS $body$
BEGIN
    IF to_regclass('knowledge_vectors') IS NOT NULL THEN
        RETURN true;
    END IF;
    IF to_regclass('memory_vectors') IS NULL THEN
        RETURN false;
    END IF;
    CREATE TABLE knowledge_vectors (
        tenant_id uuid NOT NULL,
        blob text NOT NULL,
        model text NOT NULL,
        embedding halfvec(384) NOT NULL,
        PRIMARY KEY (tenant_id, blob)
    );
    ALTER TABLE knowledge_vectors ENABLE ROW LEVEL SECURITY;
    CREATE POLICY own ON knowledge_vectors TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
    CREATE POLICY core ON knowledge_vectors TO dragoman_core USING (true);
    GRANT SELECT ON knowledge_vectors TO dragoman_app;
    GRANT SELECT, INSERT, UPDATE, DELETE ON knowledge_vectors TO dragoman_core;
    RETURN true;
END $body$;
REVOKE ALL ON FUNCTION knowledge_enable_meaning FROM PUBLIC;
SELECT knowledge_enable_meaning();
