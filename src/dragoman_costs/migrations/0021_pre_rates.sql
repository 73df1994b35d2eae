-- why: amounts are converted by the rates that a tenant sets, for a day or for a month
SET LOCAL lock_timeout = '5s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE TABLE cost_rates (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    from_currency text NOT NULL,
    to_currency text NOT NULL,
    grain text NOT NULL,
    day date NOT NULL,
    rate numeric NOT NULL CHECK (rate > 0),
    set_by text NOT NULL,
    set_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT cost_rates_period_key UNIQUE (tenant_id, to_currency, from_currency, grain, day)
);
COMMENT ON COLUMN cost_rates.grain IS 'day or month; a rate of a day wins';
COMMENT ON COLUMN cost_rates.day IS 'the day, or the first day of the month';
ALTER TABLE cost_rates ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON cost_rates TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT, DELETE ON cost_rates TO dragoman_app;
GRANT UPDATE (rate, set_by, set_at) ON cost_rates TO dragoman_app;

CREATE FUNCTION empty_cost_rates() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM cost_rates WHERE tenant_id = NEW.id;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION empty_cost_rates FROM PUBLIC;
CREATE TRIGGER cost_rates_go_with_their_tenant AFTER UPDATE OF status ON tenants
    FOR EACH ROW WHEN (NEW.status = 'deleted') EXECUTE FUNCTION empty_cost_rates();
