-- why: whoever cannot wait for a task is told by a webhook; each configuration follows the task's log by itself
SET LOCAL lock_timeout = '5s';

CREATE TABLE push_configs (
    tenant_id uuid NOT NULL,
    task_id uuid NOT NULL,
    id text NOT NULL,
    version text NOT NULL,
    url text NOT NULL,
    scheme text,
    secret bytea,
    delivered_seq int NOT NULL,
    state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'done', 'failed')),
    reason text,
    attempts int NOT NULL DEFAULT 0,
    due_at timestamptz NOT NULL DEFAULT now(),
    worker uuid,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, task_id, id)
);
CREATE INDEX push_configs_due ON push_configs (attempts, due_at) WHERE state = 'open';
CREATE INDEX push_configs_of_task ON push_configs (task_id) WHERE state = 'open';
COMMENT ON COLUMN push_configs.task_id IS 'no reference: a configuration is stored before the task that it came with';
COMMENT ON COLUMN push_configs.version IS 'of the protocol that asked for it, which decides what is sent';
COMMENT ON COLUMN push_configs.secret IS 'token and credentials, sealed with the key "vault"';
COMMENT ON COLUMN push_configs.delivered_seq IS 'the last event of the task that was delivered, or is not for this one';
COMMENT ON COLUMN push_configs.due_at IS 'when to look next; while a worker has it, the end of its lease';

ALTER TABLE push_configs ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON push_configs TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY core ON push_configs TO dragoman_core USING (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON push_configs TO dragoman_app;
GRANT SELECT, UPDATE, DELETE ON push_configs TO dragoman_core;
