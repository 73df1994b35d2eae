-- why: documents in versions that never change, their contents by hash; all of it in the database, which is all that several machines share
SET LOCAL lock_timeout = '5s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE TABLE document_contents (
    tenant_id uuid NOT NULL,
    sha256 bytea NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (tenant_id, sha256)
);
-- Most of it is compressed already; and uncompressed, a piece is read without the rest.
ALTER TABLE document_contents ALTER COLUMN content SET STORAGE EXTERNAL;

CREATE TABLE documents (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    name text,
    title text NOT NULL,
    matter_id text,
    about uuid,
    state text NOT NULL,
    version int NOT NULL,
    executed_version int,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT documents_name_key UNIQUE (tenant_id, name)
);
CREATE INDEX documents_of_matter ON documents (tenant_id, matter_id, id DESC) WHERE matter_id IS NOT NULL;
COMMENT ON COLUMN documents.name IS 'what its maker calls it: the resource id of the envelope that had it drafted';
COMMENT ON COLUMN documents.about IS 'the document that this one is about, such as what a redline compares';

CREATE TABLE document_versions (
    tenant_id uuid NOT NULL,
    document_id uuid NOT NULL,
    version int NOT NULL,
    kind text NOT NULL,
    sha256 bytea NOT NULL,
    size_bytes int NOT NULL,
    media_type text NOT NULL,
    source_sha256 bytea,
    template text,
    fields jsonb,
    made_by text NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now(),
    task_id uuid,
    origin text,
    PRIMARY KEY (tenant_id, document_id, version),
    FOREIGN KEY (tenant_id, document_id) REFERENCES documents (tenant_id, id),
    FOREIGN KEY (tenant_id, sha256) REFERENCES document_contents (tenant_id, sha256),
    CONSTRAINT document_versions_origin_key UNIQUE (tenant_id, origin)
);
COMMENT ON COLUMN document_versions.origin IS 'the step of the task that made it: a task that is tried again makes it once';
COMMENT ON COLUMN document_versions.source_sha256 IS 'the text that it was made from';

ALTER TABLE document_contents ENABLE ROW LEVEL SECURITY;
ALTER TABLE documents ENABLE ROW LEVEL SECURITY;
ALTER TABLE document_versions ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON document_contents TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON documents TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON document_versions TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT ON document_contents, documents, document_versions TO dragoman_app;
GRANT UPDATE (version, state, executed_version, updated_at) ON documents TO dragoman_app;

-- What a tenant signed goes with the tenant.
CREATE FUNCTION empty_documents() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM document_versions WHERE tenant_id = NEW.id;
    DELETE FROM documents WHERE tenant_id = NEW.id;
    DELETE FROM document_contents WHERE tenant_id = NEW.id;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION empty_documents FROM PUBLIC;
CREATE TRIGGER documents_go_with_their_tenant AFTER UPDATE OF status ON tenants
    FOR EACH ROW WHEN (NEW.status = 'deleted') EXECUTE FUNCTION empty_documents();
