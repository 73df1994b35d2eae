-- why: what may be spent in a month, a quarter or a year, and alerts when it is or will be
SET LOCAL lock_timeout = '5s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE TABLE cost_budgets (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    name text NOT NULL,
    provider text,
    account_id uuid,
    service text,
    tag_key text,
    tag_value text,
    amount numeric NOT NULL CHECK (amount > 0),
    currency text NOT NULL,
    measure text NOT NULL,
    period text NOT NULL,
    thresholds int[] NOT NULL,
    forecast_thresholds int[] NOT NULL,
    state jsonb NOT NULL,
    evaluated_at timestamptz NOT NULL DEFAULT now(),
    version int NOT NULL DEFAULT 1,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id)
);
COMMENT ON COLUMN cost_budgets.state IS 'as it was when it was evaluated last';
CREATE TABLE cost_budget_alerts (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    budget_id uuid NOT NULL,
    budget_name text NOT NULL,
    period_start date NOT NULL,
    period_end date NOT NULL,
    kind text NOT NULL,
    threshold int NOT NULL,
    budgeted numeric NOT NULL,
    reached numeric NOT NULL,
    currency text NOT NULL,
    raised_at timestamptz NOT NULL DEFAULT now(),
    acknowledged_at timestamptz,
    acknowledged_by text,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT cost_budget_alerts_once_key UNIQUE (tenant_id, budget_id, period_start, kind, threshold),
    FOREIGN KEY (tenant_id, budget_id) REFERENCES cost_budgets (tenant_id, id) ON DELETE CASCADE
);
COMMENT ON COLUMN cost_budget_alerts.kind IS 'actual or forecast';

-- A tenant with budgets is due when what it spent has changed, and every hour.
CREATE TABLE cost_budget_checks (
    tenant_id uuid PRIMARY KEY,
    due_at timestamptz NOT NULL
);
CREATE INDEX cost_budget_checks_due_idx ON cost_budget_checks (due_at);
ALTER TABLE cost_budgets ENABLE ROW LEVEL SECURITY;
ALTER TABLE cost_budget_alerts ENABLE ROW LEVEL SECURITY;
ALTER TABLE cost_budget_checks ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON cost_budgets TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON cost_budget_alerts TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON cost_budget_checks TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY core ON cost_budget_checks TO dragoman_core USING (true);
GRANT SELECT, INSERT, DELETE ON cost_budgets, cost_budget_alerts TO dragoman_app;
GRANT UPDATE (name, provider, account_id, service, tag_key, tag_value, amount, currency, measure, period, thresholds,
    forecast_thresholds, state, evaluated_at, version, updated_at) ON cost_budgets TO dragoman_app;
GRANT UPDATE (acknowledged_at, acknowledged_by) ON cost_budget_alerts TO dragoman_app;
GRANT SELECT, INSERT ON cost_budget_checks TO dragoman_app;
GRANT UPDATE (due_at) ON cost_budget_checks TO dragoman_app;
GRANT SELECT ON cost_budget_checks TO dragoman_core;
GRANT UPDATE (due_at) ON cost_budget_checks TO dragoman_core;

CREATE FUNCTION ask_for_budget_check() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE cost_budget_checks SET due_at = clock_timestamp() WHERE tenant_id = NEW.tenant_id;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION ask_for_budget_check FROM PUBLIC;
CREATE TRIGGER slices_are_held_against_budgets AFTER UPDATE OF state ON cost_slices
    FOR EACH ROW WHEN (NEW.state <> OLD.state) EXECUTE FUNCTION ask_for_budget_check();

CREATE FUNCTION empty_cost_budgets() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM cost_budget_alerts WHERE tenant_id = NEW.id;
    DELETE FROM cost_budget_checks WHERE tenant_id = NEW.id;
    DELETE FROM cost_budgets WHERE tenant_id = NEW.id;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION empty_cost_budgets FROM PUBLIC;
CREATE TRIGGER cost_budgets_go_with_their_tenant AFTER UPDATE OF status ON tenants
    FOR EACH ROW WHEN (NEW.status = 'deleted') EXECUTE FUNCTION empty_cost_budgets();
