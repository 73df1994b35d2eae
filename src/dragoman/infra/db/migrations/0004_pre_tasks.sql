-- why: one durable task behind every protocol: its row is how it stands now, its events are how it came there
SET LOCAL lock_timeout = '5s';

CREATE TABLE tasks (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    alias text,
    context_id text NOT NULL,
    owner text NOT NULL,
    skill text,
    state text NOT NULL,
    status_at timestamptz NOT NULL DEFAULT now(),
    message jsonb,
    error jsonb,
    slot jsonb,
    history jsonb NOT NULL DEFAULT '[]',
    artifacts jsonb NOT NULL DEFAULT '[]',
    metadata jsonb NOT NULL DEFAULT '{}',
    caller jsonb NOT NULL,
    seq int NOT NULL DEFAULT 0,
    attempt int NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id)
);
CREATE UNIQUE INDEX tasks_alias ON tasks (tenant_id, alias) WHERE alias IS NOT NULL;
CREATE INDEX tasks_newest ON tasks (tenant_id, status_at DESC, id DESC);
CREATE INDEX tasks_of_context ON tasks (tenant_id, context_id, status_at DESC, id DESC);
COMMENT ON COLUMN tasks.alias IS 'an id that the caller chose; a name within its tenant, never the key';
COMMENT ON COLUMN tasks.seq IS 'the number of its last event; what changes a task takes the next numbers under its lock';
COMMENT ON COLUMN tasks.caller IS 'who asked, as they were then: whoever takes the task over acts for them';

CREATE TABLE task_events (
    tenant_id uuid NOT NULL,
    task_id uuid NOT NULL,
    seq int NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    body jsonb NOT NULL,
    PRIMARY KEY (tenant_id, task_id, seq)
);

CREATE TABLE task_keys (
    tenant_id uuid NOT NULL,
    subject text NOT NULL,
    key text NOT NULL,
    digest bytea NOT NULL,
    task_id uuid NOT NULL,
    PRIMARY KEY (tenant_id, subject, key)
);
CREATE INDEX task_keys_of_task ON task_keys (tenant_id, task_id);
COMMENT ON TABLE task_keys IS 'idempotency keys of messages; a key is there if and only if its task is';

CREATE TABLE task_data (
    tenant_id uuid NOT NULL,
    task_id uuid NOT NULL,
    key text NOT NULL,
    value jsonb NOT NULL,
    PRIMARY KEY (tenant_id, task_id, key)
);

CREATE TABLE threads (
    tenant_id uuid NOT NULL,
    thread_id text NOT NULL,
    owner text NOT NULL,
    conversation_context jsonb NOT NULL DEFAULT '[]',
    session_data jsonb NOT NULL DEFAULT '{}',
    bytes int NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    context_expires_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, thread_id)
);
CREATE INDEX threads_context_expiry ON threads (context_expires_at, bytes);

CREATE TABLE task_queue (
    task_id uuid PRIMARY KEY,
    tenant_id uuid NOT NULL,
    lane text NOT NULL DEFAULT 'turn',
    run_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz NOT NULL DEFAULT now(),
    worker uuid,
    lease_until timestamptz
);
COMMENT ON COLUMN task_queue.lane IS 'who takes it: the turn of a conversation is run by its agent, an action by a worker';
COMMENT ON COLUMN task_queue.started_at IS 'when this turn of the task began: its time runs on whoever takes it over';
CREATE INDEX task_queue_due ON task_queue (lane, run_at) WHERE worker IS NULL;
CREATE INDEX task_queue_leases ON task_queue (lane, lease_until) WHERE worker IS NOT NULL;
CREATE INDEX task_queue_of_worker ON task_queue (worker) WHERE worker IS NOT NULL;

ALTER TABLE tasks ENABLE ROW LEVEL SECURITY;
ALTER TABLE task_events ENABLE ROW LEVEL SECURITY;
ALTER TABLE task_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE task_data ENABLE ROW LEVEL SECURITY;
ALTER TABLE threads ENABLE ROW LEVEL SECURITY;
ALTER TABLE task_queue ENABLE ROW LEVEL SECURITY;

CREATE POLICY own ON tasks TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON task_events TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON task_keys TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON task_data TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON threads TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON task_queue TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY core ON tasks TO dragoman_core USING (true);
CREATE POLICY core ON task_events TO dragoman_core USING (true);
CREATE POLICY core ON task_keys TO dragoman_core USING (true);
CREATE POLICY core ON task_data TO dragoman_core USING (true);
CREATE POLICY core ON threads TO dragoman_core USING (true);
CREATE POLICY core ON task_queue TO dragoman_core USING (true);

GRANT SELECT ON tasks, task_events, task_keys, task_queue TO dragoman_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON task_data, threads TO dragoman_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON tasks, task_events, task_keys, task_data, threads, task_queue TO dragoman_core;
