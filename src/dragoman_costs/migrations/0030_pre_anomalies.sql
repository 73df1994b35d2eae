-- why: days on which spend was not as expected, with what caused it and what people made of it
SET LOCAL lock_timeout = '5s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE TABLE cost_anomalies (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    account_id uuid NOT NULL,
    provider text NOT NULL,
    service text NOT NULL,
    currency text NOT NULL,
    day date NOT NULL,
    last_day date NOT NULL,
    shape text NOT NULL,
    expected numeric NOT NULL,
    actual numeric NOT NULL,
    total_excess numeric NOT NULL,
    score numeric NOT NULL,
    title text NOT NULL,
    causes jsonb NOT NULL,
    status text NOT NULL,
    reason text,
    decided_by text,
    decided_at timestamptz,
    found_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT cost_anomalies_event_key UNIQUE (tenant_id, account_id, provider, service, currency, day)
);
COMMENT ON COLUMN cost_anomalies.status IS 'open, acknowledged, resolved or dismissed';
CREATE INDEX cost_anomalies_day_idx ON cost_anomalies (tenant_id, day DESC, id DESC);

ALTER TABLE cost_anomalies ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON cost_anomalies TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT, DELETE ON cost_anomalies TO dragoman_app;
GRANT UPDATE (last_day, shape, expected, actual, total_excess, score, title, causes, status, reason, decided_by,
    decided_at) ON cost_anomalies TO dragoman_app;

-- A tenant is analysed when a slice of it begins or ceases to be shown. `claimed_at` is the lease of who does it.
CREATE TABLE cost_analyses (
    tenant_id uuid PRIMARY KEY,
    due_at timestamptz,
    claimed_at timestamptz,
    done_at timestamptz
);
CREATE INDEX cost_analyses_due_idx ON cost_analyses (due_at) WHERE due_at IS NOT NULL;
ALTER TABLE cost_analyses ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON cost_analyses TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY core ON cost_analyses TO dragoman_core USING (true);
GRANT SELECT, INSERT ON cost_analyses TO dragoman_app;
GRANT UPDATE (due_at, claimed_at, done_at) ON cost_analyses TO dragoman_app;
GRANT SELECT ON cost_analyses TO dragoman_core;
GRANT UPDATE (due_at, claimed_at, done_at) ON cost_analyses TO dragoman_core;

CREATE FUNCTION ask_for_cost_analysis() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO cost_analyses (tenant_id, due_at) VALUES (NEW.tenant_id, clock_timestamp())
    ON CONFLICT (tenant_id) DO UPDATE SET due_at = excluded.due_at;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION ask_for_cost_analysis FROM PUBLIC;
CREATE TRIGGER slices_are_analysed AFTER UPDATE OF state ON cost_slices
    FOR EACH ROW WHEN (NEW.state <> OLD.state) EXECUTE FUNCTION ask_for_cost_analysis();

CREATE FUNCTION empty_cost_anomalies() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM cost_anomalies WHERE tenant_id = NEW.id;
    DELETE FROM cost_analyses WHERE tenant_id = NEW.id;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION empty_cost_anomalies FROM PUBLIC;
CREATE TRIGGER cost_anomalies_go_with_their_tenant AFTER UPDATE OF status ON tenants
    FOR EACH ROW WHEN (NEW.status = 'deleted') EXECUTE FUNCTION empty_cost_anomalies();
