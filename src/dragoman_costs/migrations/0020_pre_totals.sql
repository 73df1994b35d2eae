-- why: a dashboard sums months of days by account and provider; the roll-up by service has fifty times as many rows
SET LOCAL lock_timeout = '5s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE TABLE cost_totals_daily (
    tenant_id uuid NOT NULL, slice_id uuid NOT NULL, day date NOT NULL, account_id uuid NOT NULL,
    provider text NOT NULL, currency text NOT NULL,
    billed numeric NOT NULL, effective numeric NOT NULL, list numeric NOT NULL, contracted numeric NOT NULL,
    untagged numeric NOT NULL, row_count bigint NOT NULL,
    FOREIGN KEY (tenant_id, slice_id) REFERENCES cost_slices (tenant_id, id) ON DELETE CASCADE
) PARTITION BY HASH (tenant_id);
DO $$
BEGIN
    FOR place IN 0..7 LOOP
        EXECUTE format('CREATE TABLE %I PARTITION OF cost_totals_daily FOR VALUES WITH (MODULUS 8, REMAINDER %s)',
                       'cost_totals_daily_' || place, place);
    END LOOP;
END $$;
CREATE INDEX ON cost_totals_daily (tenant_id, slice_id, day);
ALTER TABLE cost_totals_daily ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON cost_totals_daily TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT, DELETE ON cost_totals_daily TO dragoman_app;

INSERT INTO cost_totals_daily (tenant_id, slice_id, day, account_id, provider, currency,
    billed, effective, list, contracted, untagged, row_count)
SELECT tenant_id, slice_id, day, account_id, provider, currency,
    sum(billed), sum(effective), sum(list), sum(contracted), sum(untagged), sum(row_count)
FROM cost_services_daily GROUP BY tenant_id, slice_id, day, account_id, provider, currency;

CREATE FUNCTION empty_cost_totals() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM cost_totals_daily WHERE tenant_id = NEW.id;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION empty_cost_totals FROM PUBLIC;
CREATE TRIGGER cost_totals_go_with_their_tenant AFTER UPDATE OF status ON tenants
    FOR EACH ROW WHEN (NEW.status = 'deleted') EXECUTE FUNCTION empty_cost_totals();
