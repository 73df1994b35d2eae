-- why: savings that rules found, who decided them, and what came of them
SET LOCAL lock_timeout = '5s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE TABLE cost_recommendations (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    rule text NOT NULL,
    key text NOT NULL,
    type text NOT NULL,
    account_id uuid NOT NULL,
    provider text NOT NULL,
    service text NOT NULL,
    region text NOT NULL,
    sub_account text NOT NULL,
    resource_id text NOT NULL,
    resource_name text NOT NULL,
    title text NOT NULL,
    description text NOT NULL,
    currency text NOT NULL,
    saving numeric NOT NULL,
    confidence text NOT NULL,
    risk text NOT NULL,
    current_config jsonb NOT NULL,
    recommended_config jsonb NOT NULL,
    facts jsonb NOT NULL,
    evidence jsonb NOT NULL,
    status text NOT NULL,
    version int NOT NULL DEFAULT 1,
    content_sha256 text NOT NULL,
    version_saving numeric NOT NULL,
    first_seen_at timestamptz NOT NULL DEFAULT now(),
    last_seen_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    decided_by text,
    decided_at timestamptz,
    decision_reason text,
    attempt int NOT NULL DEFAULT 0,
    executing_at timestamptz,
    executing_by text,
    task_id uuid,
    checked_at timestamptz,
    plan jsonb,
    last_error jsonb,
    executed_at timestamptz,
    executed_by text,
    executed_task uuid,
    outcome jsonb,
    PRIMARY KEY (tenant_id, id)
);
COMMENT ON COLUMN cost_recommendations.key IS 'what it is about: an account and a resource, or a pool of use';
COMMENT ON COLUMN cost_recommendations.status IS 'pending, approved, executed, dismissed or expired';
COMMENT ON COLUMN cost_recommendations.version_saving IS 'the saving when the version began';
COMMENT ON COLUMN cost_recommendations.executing_at IS 'since when it is being carried out; empty when it is not';
-- A finding is one recommendation for as long as nothing was done about it.
CREATE UNIQUE INDEX cost_recommendations_finding_key ON cost_recommendations (tenant_id, rule, key) WHERE status <> 'executed';
CREATE INDEX cost_recommendations_saving_idx ON cost_recommendations (tenant_id, saving DESC, id DESC);
CREATE INDEX cost_recommendations_executing_idx ON cost_recommendations (checked_at) WHERE executing_at IS NOT NULL;

-- Added and never changed.
CREATE TABLE cost_recommendation_decisions (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    recommendation_id uuid NOT NULL,
    version int NOT NULL,
    content_sha256 text NOT NULL,
    saving numeric NOT NULL,
    currency text NOT NULL,
    decision text NOT NULL,
    reason text,
    decided_by text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, recommendation_id) REFERENCES cost_recommendations (tenant_id, id)
);
CREATE INDEX cost_recommendation_decisions_idx ON cost_recommendation_decisions (tenant_id, recommendation_id, id);

CREATE TABLE cost_recommendation_rules (
    tenant_id uuid NOT NULL,
    rule text NOT NULL,
    enabled boolean NOT NULL,
    thresholds jsonb NOT NULL,
    exclusions jsonb NOT NULL,
    version int NOT NULL DEFAULT 1,
    updated_by text NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, rule)
);

ALTER TABLE cost_recommendations ENABLE ROW LEVEL SECURITY;
ALTER TABLE cost_recommendation_decisions ENABLE ROW LEVEL SECURITY;
ALTER TABLE cost_recommendation_rules ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON cost_recommendations TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON cost_recommendation_decisions TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON cost_recommendation_rules TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY core ON cost_recommendations TO dragoman_core USING (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON cost_recommendations TO dragoman_app;
GRANT SELECT, INSERT ON cost_recommendation_decisions TO dragoman_app;
GRANT SELECT, INSERT, UPDATE ON cost_recommendation_rules TO dragoman_app;
GRANT SELECT ON cost_recommendations TO dragoman_core;
GRANT UPDATE (checked_at) ON cost_recommendations TO dragoman_core;

CREATE FUNCTION empty_cost_recommendations() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM cost_recommendation_decisions WHERE tenant_id = NEW.id;
    DELETE FROM cost_recommendations WHERE tenant_id = NEW.id;
    DELETE FROM cost_recommendation_rules WHERE tenant_id = NEW.id;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION empty_cost_recommendations FROM PUBLIC;
CREATE TRIGGER cost_recommendations_go_with_their_tenant AFTER UPDATE OF status ON tenants
    FOR EACH ROW WHEN (NEW.status = 'deleted') EXECUTE FUNCTION empty_cost_recommendations();
