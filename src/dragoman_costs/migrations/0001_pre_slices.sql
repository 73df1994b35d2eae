-- why: billing data by slice (an account, a period, a part), its rows, and roll-ups that are in step with them
SET LOCAL lock_timeout = '5s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE TABLE cost_accounts (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    provider text NOT NULL,
    identifier text NOT NULL,
    name text NOT NULL,
    status text NOT NULL,
    config jsonb NOT NULL DEFAULT '{}',
    credential_kind text NOT NULL,
    credential_ref text,
    credential_sealed bytea,
    credential_status text NOT NULL,
    synthetic boolean NOT NULL DEFAULT false,
    last_sync_at timestamptz,
    last_error text,
    version int NOT NULL DEFAULT 1,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT cost_accounts_identifier_key UNIQUE (tenant_id, provider, identifier)
);
COMMENT ON COLUMN cost_accounts.credential_ref IS 'name of an environment variable, or path of a file; never a secret';
COMMENT ON COLUMN cost_accounts.synthetic IS 'its rows were made up by the demo';

CREATE TABLE cost_slices (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    account_id uuid NOT NULL,
    period date NOT NULL,
    part text NOT NULL,
    state text NOT NULL,
    import_id uuid NOT NULL,
    file_name text NOT NULL,
    file_sha256 text NOT NULL,
    row_count bigint NOT NULL DEFAULT 0,
    made_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, account_id) REFERENCES cost_accounts (tenant_id, id)
);
COMMENT ON COLUMN cost_slices.state IS 'loading, current or replaced';
COMMENT ON COLUMN cost_slices.period IS 'first day of the billing period';
COMMENT ON COLUMN cost_slices.part IS 'empty where one file has the whole period; else the name of the file';
CREATE UNIQUE INDEX cost_slices_current_key ON cost_slices (tenant_id, account_id, period, part) WHERE state = 'current';
CREATE INDEX cost_slices_unfinished_idx ON cost_slices (tenant_id, made_at) WHERE state <> 'current';

-- One place for each tenant: a slice is replaced by writing another one and pointing at it, so that no partition is
-- made or dropped while the server runs (docs/decisions/0049).
CREATE TABLE cost_rows (
    tenant_id uuid NOT NULL,
    slice_id uuid NOT NULL,
    line int NOT NULL,
    day date NOT NULL,
    charge_start timestamptz NOT NULL,
    charge_end timestamptz,
    billed numeric NOT NULL,
    effective numeric NOT NULL,
    list numeric NOT NULL,
    contracted numeric NOT NULL,
    currency text NOT NULL,
    provider text NOT NULL,
    service text NOT NULL,
    service_category text NOT NULL,
    region text NOT NULL,
    sub_account text NOT NULL,
    sub_account_name text NOT NULL,
    resource_id text NOT NULL,
    resource_name text NOT NULL,
    resource_type text NOT NULL,
    charge_category text NOT NULL,
    charge_description text NOT NULL,
    pricing_category text NOT NULL,
    quantity numeric,
    unit text NOT NULL,
    commitment_id text NOT NULL,
    commitment_status text NOT NULL,
    tags jsonb NOT NULL,
    extra jsonb NOT NULL
) PARTITION BY HASH (tenant_id);
COMMENT ON COLUMN cost_rows.line IS 'of the file, the header not counted: from a number to its rows';
COMMENT ON COLUMN cost_rows.extra IS 'all other columns of the file, as text, known and unknown ones';

-- Sums of the rows of a slice. The first is for totals, the others add what they are named for.
CREATE TABLE cost_services_daily (
    tenant_id uuid NOT NULL, slice_id uuid NOT NULL, day date NOT NULL, account_id uuid NOT NULL,
    provider text NOT NULL, service text NOT NULL, charge_category text NOT NULL, currency text NOT NULL,
    billed numeric NOT NULL, effective numeric NOT NULL, list numeric NOT NULL, contracted numeric NOT NULL,
    untagged numeric NOT NULL, row_count bigint NOT NULL
) PARTITION BY HASH (tenant_id);
COMMENT ON COLUMN cost_services_daily.untagged IS 'effective cost of the rows without any tag';

CREATE TABLE cost_daily (
    tenant_id uuid NOT NULL, slice_id uuid NOT NULL, day date NOT NULL, account_id uuid NOT NULL,
    provider text NOT NULL, service text NOT NULL, service_category text NOT NULL, region text NOT NULL,
    sub_account text NOT NULL, sub_account_name text NOT NULL, charge_category text NOT NULL,
    pricing_category text NOT NULL, currency text NOT NULL,
    billed numeric NOT NULL, effective numeric NOT NULL, list numeric NOT NULL, contracted numeric NOT NULL,
    row_count bigint NOT NULL
) PARTITION BY HASH (tenant_id);

CREATE TABLE cost_tags_daily (
    tenant_id uuid NOT NULL, slice_id uuid NOT NULL, day date NOT NULL, account_id uuid NOT NULL,
    tag_key text NOT NULL, tag_value text NOT NULL,
    provider text NOT NULL, service text NOT NULL, charge_category text NOT NULL, currency text NOT NULL,
    billed numeric NOT NULL, effective numeric NOT NULL, list numeric NOT NULL, contracted numeric NOT NULL,
    row_count bigint NOT NULL
) PARTITION BY HASH (tenant_id);

CREATE TABLE cost_resources_daily (
    tenant_id uuid NOT NULL, slice_id uuid NOT NULL, day date NOT NULL, account_id uuid NOT NULL,
    resource_id text NOT NULL, resource_name text NOT NULL, resource_type text NOT NULL,
    provider text NOT NULL, service text NOT NULL, region text NOT NULL, sub_account text NOT NULL,
    charge_category text NOT NULL, pricing_category text NOT NULL, unit text NOT NULL, currency text NOT NULL,
    billed numeric NOT NULL, effective numeric NOT NULL, list numeric NOT NULL, contracted numeric NOT NULL,
    quantity numeric, row_count bigint NOT NULL
) PARTITION BY HASH (tenant_id);

DO $$
DECLARE
    whole text;
    place int;
BEGIN
    FOREACH whole IN ARRAY ARRAY['cost_rows', 'cost_services_daily', 'cost_daily', 'cost_tags_daily', 'cost_resources_daily']
    LOOP
        FOR place IN 0..7 LOOP
            EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES WITH (MODULUS 8, REMAINDER %s)',
                           whole || '_' || place, whole, place);
        END LOOP;
    END LOOP;
END $$;
CREATE INDEX ON cost_rows (tenant_id, slice_id, day);
CREATE INDEX ON cost_services_daily (tenant_id, slice_id, day);
CREATE INDEX ON cost_daily (tenant_id, slice_id, day);
CREATE INDEX ON cost_tags_daily (tenant_id, tag_key, slice_id, day);
CREATE INDEX ON cost_resources_daily (tenant_id, slice_id, day);
CREATE INDEX ON cost_resources_daily (tenant_id, resource_id, day);

ALTER TABLE cost_accounts ENABLE ROW LEVEL SECURITY;
ALTER TABLE cost_slices ENABLE ROW LEVEL SECURITY;
ALTER TABLE cost_rows ENABLE ROW LEVEL SECURITY;
ALTER TABLE cost_services_daily ENABLE ROW LEVEL SECURITY;
ALTER TABLE cost_daily ENABLE ROW LEVEL SECURITY;
ALTER TABLE cost_tags_daily ENABLE ROW LEVEL SECURITY;
ALTER TABLE cost_resources_daily ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON cost_accounts TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON cost_slices TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON cost_rows TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON cost_services_daily TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON cost_daily TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON cost_tags_daily TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON cost_resources_daily TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT, DELETE ON cost_accounts, cost_slices, cost_rows, cost_services_daily, cost_daily, cost_tags_daily,
    cost_resources_daily TO dragoman_app;
GRANT UPDATE (identifier, name, status, config, credential_kind, credential_ref, credential_sealed, credential_status,
    last_sync_at, last_error, version, updated_at) ON cost_accounts TO dragoman_app;
GRANT UPDATE (state, row_count) ON cost_slices TO dragoman_app;

CREATE FUNCTION empty_costs() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM cost_resources_daily WHERE tenant_id = NEW.id;
    DELETE FROM cost_tags_daily WHERE tenant_id = NEW.id;
    DELETE FROM cost_daily WHERE tenant_id = NEW.id;
    DELETE FROM cost_services_daily WHERE tenant_id = NEW.id;
    DELETE FROM cost_rows WHERE tenant_id = NEW.id;
    DELETE FROM cost_slices WHERE tenant_id = NEW.id;
    DELETE FROM cost_accounts WHERE tenant_id = NEW.id;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION empty_costs FROM PUBLIC;
CREATE TRIGGER costs_go_with_their_tenant AFTER UPDATE OF status ON tenants
    FOR EACH ROW WHEN (NEW.status = 'deleted') EXECUTE FUNCTION empty_costs();
