-- why: every decision of governance is kept with the revision of the policies it was made under, so that it can be replayed
SET LOCAL lock_timeout = '5s';

CREATE TABLE governance_decisions (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    kind text NOT NULL,
    subject text NOT NULL,
    project text,
    target_layer text NOT NULL,
    ids jsonb NOT NULL DEFAULT '{}',
    context bytea,
    asker jsonb NOT NULL,
    policy_version text NOT NULL,
    valid boolean NOT NULL,
    drift_score double precision,
    breaches jsonb NOT NULL DEFAULT '[]',
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX governance_decisions_of_project ON governance_decisions (tenant_id, project, id DESC)
    WHERE project IS NOT NULL;
COMMENT ON COLUMN governance_decisions.context IS 'what was judged, compressed; null when it was too large to keep';
COMMENT ON COLUMN governance_decisions.asker IS 'type and roles of who asked: rules on actions look at them';

CREATE TABLE governance_suppressions (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    project text NOT NULL,
    policy_id text NOT NULL,
    pattern text,
    path text,
    reason text NOT NULL,
    owner text NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    lifted_at timestamptz,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX governance_suppressions_of_project ON governance_suppressions (tenant_id, project) WHERE lifted_at IS NULL;

ALTER TABLE governance_decisions ENABLE ROW LEVEL SECURITY;
ALTER TABLE governance_suppressions ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON governance_decisions TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON governance_suppressions TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT ON governance_decisions TO dragoman_app;
GRANT SELECT, INSERT ON governance_suppressions TO dragoman_app;
GRANT UPDATE (lifted_at) ON governance_suppressions TO dragoman_app;
