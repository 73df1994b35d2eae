-- why: accounts are synced by themselves once a day, and files that have not changed since are left alone
SET LOCAL lock_timeout = '5s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

ALTER TABLE cost_accounts ADD COLUMN next_sync_at timestamptz NOT NULL DEFAULT now();
GRANT UPDATE (next_sync_at) ON cost_accounts TO dragoman_app;
CREATE INDEX cost_accounts_sync_idx ON cost_accounts (next_sync_at)
    WHERE deleted_at IS NULL AND status <> 'disconnected' AND config ? 'export_url';
-- The job that syncs and removes accounts looks for them in all tenants.
CREATE POLICY core ON cost_accounts TO dragoman_core USING (true);
GRANT SELECT (tenant_id, id, status, config, next_sync_at, deleted_at) ON cost_accounts TO dragoman_core;
GRANT UPDATE (next_sync_at) ON cost_accounts TO dragoman_core;

CREATE TABLE cost_exports (
    tenant_id uuid NOT NULL,
    account_id uuid NOT NULL,
    name text NOT NULL,
    version text NOT NULL,
    import_id uuid NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, account_id, name),
    FOREIGN KEY (tenant_id, account_id) REFERENCES cost_accounts (tenant_id, id) ON DELETE CASCADE
);
COMMENT ON COLUMN cost_exports.version IS 'ETag or time of the file whose import was last asked for';
ALTER TABLE cost_exports ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON cost_exports TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT, DELETE ON cost_exports TO dragoman_app;
GRANT UPDATE (version, import_id, seen_at) ON cost_exports TO dragoman_app;

CREATE FUNCTION empty_cost_exports() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM cost_exports WHERE tenant_id = NEW.id;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION empty_cost_exports FROM PUBLIC;
CREATE TRIGGER cost_exports_go_with_their_tenant AFTER UPDATE OF status ON tenants
    FOR EACH ROW WHEN (NEW.status = 'deleted') EXECUTE FUNCTION empty_cost_exports();
