-- why: what must not be done without consent is bound to what was shown: asked for, decided by others, used once
SET LOCAL lock_timeout = '5s';

CREATE TABLE approvals (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    state text NOT NULL DEFAULT 'pending'
        CHECK (state IN ('pending', 'approved', 'denied', 'expired', 'consumed', 'stale', 'withdrawn')),
    digest text NOT NULL,
    action text NOT NULL,
    resource jsonb NOT NULL,
    matter_id text NOT NULL,
    input jsonb NOT NULL,
    policies jsonb NOT NULL,
    quorum int NOT NULL,
    roles text[] NOT NULL,
    people_only boolean NOT NULL,
    requested_by text NOT NULL,
    parties text[] NOT NULL,
    reason text,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    closed_at timestamptz,
    closed_because text,
    consumed_by text,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX approvals_open ON approvals (expires_at) WHERE state IN ('pending', 'approved');
CREATE INDEX approvals_open_of_tenant ON approvals (tenant_id, id) WHERE state IN ('pending', 'approved');
CREATE INDEX approvals_of_matter ON approvals (tenant_id, matter_id, id DESC);
COMMENT ON COLUMN approvals.digest IS 'of action, resource, matter and input: what the approval is good for, and nothing else';
COMMENT ON COLUMN approvals.policies IS 'those in force when it was asked for, each with its version';
COMMENT ON COLUMN approvals.parties IS 'who must not decide: who asked, who is to act, and for whom';
COMMENT ON COLUMN approvals.consumed_by IS 'the canonical task that used it, or what else did';

CREATE TABLE approval_decisions (
    tenant_id uuid NOT NULL,
    approval_id uuid NOT NULL,
    subject text NOT NULL,
    principal_type text NOT NULL,
    role text NOT NULL,
    decision text NOT NULL,
    reason text,
    digest text,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, approval_id, subject)
);
COMMENT ON COLUMN approval_decisions.digest IS 'as the decider stated it; null when a person decided what was shown';

-- Who waits is told; this finds who was not, and costs only those that wait.
CREATE INDEX delegations_parked ON delegations (tenant_id, task_id) WHERE waits_for IS NOT NULL;

ALTER TABLE approvals ENABLE ROW LEVEL SECURITY;
ALTER TABLE approval_decisions ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON approvals TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON approval_decisions TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY core ON approvals TO dragoman_core USING (true);

-- What was asked for and what was decided are never rewritten; only how it stands changes.
GRANT SELECT, INSERT ON approvals, approval_decisions TO dragoman_app;
GRANT UPDATE (state, closed_at, closed_because, consumed_by) ON approvals TO dragoman_app;
GRANT SELECT, UPDATE (state, closed_at, closed_because) ON approvals TO dragoman_core;

CREATE OR REPLACE FUNCTION empty_tenant(gone uuid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT on_platform() THEN
        RAISE EXCEPTION 'only the platform empties a tenant' USING ERRCODE = 'insufficient_privilege';
    END IF;
    DELETE FROM api_keys WHERE tenant_id = gone;
    DELETE FROM users WHERE tenant_id = gone;
    -- They hold what was answered: names and addresses of people.
    DELETE FROM idempotency_keys WHERE tenant_id = gone;
    DELETE FROM memory_pending WHERE tenant_id = gone;
    IF to_regclass('memory_vectors') IS NOT NULL THEN
        EXECUTE 'DELETE FROM memory_vectors WHERE tenant_id = $1' USING gone;
    END IF;
    DELETE FROM memories WHERE tenant_id = gone;
    DELETE FROM knowledge_pending WHERE tenant_id = gone;
    IF to_regclass('knowledge_vectors') IS NOT NULL THEN
        EXECUTE 'DELETE FROM knowledge_vectors WHERE tenant_id = $1' USING gone;
    END IF;
    DELETE FROM knowledge_problems WHERE tenant_id = gone;
    DELETE FROM knowledge_items WHERE tenant_id = gone;
    DELETE FROM knowledge_repositories WHERE tenant_id = gone;
    DELETE FROM governance_suppressions WHERE tenant_id = gone;
    DELETE FROM governance_decisions WHERE tenant_id = gone;
    DELETE FROM approval_decisions WHERE tenant_id = gone;
    DELETE FROM approvals WHERE tenant_id = gone;
END $$;
