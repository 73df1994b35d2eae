-- why: a consequential action is handed over as an envelope; its task, its runs and its side effects are kept with it
SET LOCAL lock_timeout = '5s';

CREATE TABLE delegations (
    tenant_id uuid NOT NULL,
    task_id uuid NOT NULL,
    canonical_id uuid NOT NULL,
    run int NOT NULL DEFAULT 1,
    actor text NOT NULL,
    key text NOT NULL,
    digest bytea NOT NULL,
    action text NOT NULL,
    matter text NOT NULL,
    correlation_id text NOT NULL,
    max_attempts int NOT NULL,
    deadline timestamptz,
    dry_run boolean NOT NULL DEFAULT false,
    waits_for text[],
    governance jsonb NOT NULL DEFAULT '{}',
    answers jsonb NOT NULL DEFAULT '[]',
    envelope jsonb NOT NULL,
    PRIMARY KEY (tenant_id, task_id)
);
-- A rehearsal uses no key up, and every run of a task goes under the key of the first.
CREATE UNIQUE INDEX delegations_key ON delegations (tenant_id, actor, key) WHERE run = 1 AND NOT dry_run;
CREATE UNIQUE INDEX delegations_runs ON delegations (tenant_id, canonical_id, run) WHERE run > 1;
CREATE INDEX delegations_waiting ON delegations USING gin (waits_for) WHERE waits_for IS NOT NULL;
COMMENT ON COLUMN delegations.task_id IS 'the run: a task of its own; the first has the canonical id';
COMMENT ON COLUMN delegations.waits_for IS 'the approvals that are not yet decided';
COMMENT ON COLUMN delegations.governance IS 'policies with versions and approvals, as they were when it was judged last';

CREATE TABLE effects (
    tenant_id uuid NOT NULL,
    canonical_id uuid NOT NULL,
    step text NOT NULL,
    digest bytea NOT NULL,
    attempt int NOT NULL,
    outcome jsonb,
    intended_at timestamptz NOT NULL DEFAULT now(),
    settled_at timestamptz,
    PRIMARY KEY (tenant_id, canonical_id, step, digest)
);
COMMENT ON TABLE effects IS 'side effects outside: the intent is durable before the call, the outcome after it';
COMMENT ON COLUMN effects.attempt IS 'the attempt that meant to do it last; a crash leaves it without an outcome';

ALTER TABLE delegations ENABLE ROW LEVEL SECURITY;
ALTER TABLE effects ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON delegations TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON effects TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY core ON delegations TO dragoman_core USING (true);
CREATE POLICY core ON effects TO dragoman_core USING (true);
GRANT SELECT ON delegations, effects TO dragoman_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON delegations, effects TO dragoman_core;
