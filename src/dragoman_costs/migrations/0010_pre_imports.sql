-- why: billing exports are imported as tasks: their uploads, their reports, and the rows that could not be read
SET LOCAL lock_timeout = '5s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

ALTER TABLE cost_slices ADD COLUMN extra jsonb NOT NULL DEFAULT '{}';
COMMENT ON COLUMN cost_slices.extra IS 'what all rows of the slice have in `extra`, kept once';

CREATE TABLE cost_uploads (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    file_name text NOT NULL,
    size_bytes bigint NOT NULL,
    sha256 text NOT NULL,
    part_bytes int NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX cost_uploads_expires_idx ON cost_uploads (expires_at);

CREATE TABLE cost_upload_parts (
    tenant_id uuid NOT NULL,
    upload_id uuid NOT NULL,
    number int NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (tenant_id, upload_id, number),
    FOREIGN KEY (tenant_id, upload_id) REFERENCES cost_uploads (tenant_id, id) ON DELETE CASCADE
);
-- Exports that are packed already would be packed again, in vain.
ALTER TABLE cost_upload_parts ALTER COLUMN content SET STORAGE EXTERNAL;

CREATE TABLE cost_imports (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    account_id uuid NOT NULL,
    task_id uuid,
    state text NOT NULL,
    source jsonb NOT NULL,
    file_name text NOT NULL,
    part boolean NOT NULL,
    file_sha256 text,
    row_count bigint NOT NULL DEFAULT 0,
    bad_count bigint NOT NULL DEFAULT 0,
    periods jsonb NOT NULL DEFAULT '[]',
    totals jsonb NOT NULL DEFAULT '[]',
    error jsonb,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, account_id) REFERENCES cost_accounts (tenant_id, id) ON DELETE CASCADE
);
COMMENT ON COLUMN cost_imports.state IS 'requested, running, done, unchanged, failed or cancelled';

CREATE TABLE cost_bad_rows (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    import_id uuid NOT NULL,
    line int NOT NULL,
    field text NOT NULL,
    reason text NOT NULL,
    value text,
    PRIMARY KEY (tenant_id, import_id, id),
    FOREIGN KEY (tenant_id, import_id) REFERENCES cost_imports (tenant_id, id) ON DELETE CASCADE
);

ALTER TABLE cost_uploads ENABLE ROW LEVEL SECURITY;
ALTER TABLE cost_upload_parts ENABLE ROW LEVEL SECURITY;
ALTER TABLE cost_imports ENABLE ROW LEVEL SECURITY;
ALTER TABLE cost_bad_rows ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON cost_uploads TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON cost_upload_parts TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON cost_imports TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON cost_bad_rows TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT, DELETE ON cost_uploads, cost_upload_parts, cost_bad_rows TO dragoman_app;
GRANT SELECT, INSERT ON cost_imports TO dragoman_app;
GRANT UPDATE (task_id, state, file_sha256, row_count, bad_count, periods, totals, error, finished_at)
    ON cost_imports TO dragoman_app;
-- The job that removes what is no longer needed looks for it in all tenants.
CREATE POLICY core ON cost_slices TO dragoman_core USING (true);
CREATE POLICY core ON cost_uploads TO dragoman_core USING (true);
GRANT SELECT (tenant_id, id, state, made_at) ON cost_slices TO dragoman_core;
GRANT SELECT (tenant_id, id, expires_at) ON cost_uploads TO dragoman_core;

CREATE FUNCTION empty_cost_imports() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM cost_bad_rows WHERE tenant_id = NEW.id;
    DELETE FROM cost_imports WHERE tenant_id = NEW.id;
    DELETE FROM cost_upload_parts WHERE tenant_id = NEW.id;
    DELETE FROM cost_uploads WHERE tenant_id = NEW.id;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION empty_cost_imports FROM PUBLIC;
CREATE TRIGGER cost_imports_go_with_their_tenant AFTER UPDATE OF status ON tenants
    FOR EACH ROW WHEN (NEW.status = 'deleted') EXECUTE FUNCTION empty_cost_imports();
