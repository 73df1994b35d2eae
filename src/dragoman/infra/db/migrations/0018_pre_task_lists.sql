-- why: tasks are listed by any of these, newest first, however many there are; no release has the tables yet, so that
-- the indexes need not be made beside running writers
SET LOCAL lock_timeout = '5s';

-- What succeeded is nearly everything, and found without an index.
CREATE INDEX tasks_by_state ON tasks (tenant_id, state, id) WHERE state <> 'succeeded';
-- A column, since row-level security lets no expression over a document go along an index.
ALTER TABLE tasks ADD COLUMN error_code text GENERATED ALWAYS AS (error->>'code') STORED;
CREATE INDEX tasks_by_error ON tasks (tenant_id, error_code, id) WHERE error_code IS NOT NULL;
CREATE INDEX tasks_by_owner ON tasks (tenant_id, owner, id);
CREATE INDEX delegations_by_action ON delegations (tenant_id, action, task_id);
CREATE INDEX delegations_by_matter ON delegations (tenant_id, matter, task_id);
CREATE INDEX delegations_by_correlation ON delegations (tenant_id, correlation_id, task_id);
