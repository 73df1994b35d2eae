-- why: one engine claims, leases and fences turns and actions alike; an effect knows who may still be at it; the core
-- keeps the idempotency keys of what it writes
SET LOCAL lock_timeout = '5s';

ALTER TABLE task_queue
    ADD COLUMN attempt int NOT NULL DEFAULT 1,
    ADD COLUMN picks int NOT NULL DEFAULT 0,
    ADD COLUMN fifo_key text,
    ADD COLUMN blocked boolean NOT NULL DEFAULT false,
    ADD COLUMN queued_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ADD COLUMN caller jsonb;
UPDATE task_queue q SET attempt = t.attempt FROM tasks t WHERE t.tenant_id = q.tenant_id AND t.id = q.task_id;
UPDATE task_queue SET lane = 'action' WHERE lane = 'delegated';
COMMENT ON COLUMN task_queue.attempt IS 'the attempt that the lease is for: a step of another one is refused';
COMMENT ON COLUMN task_queue.picks IS 'how often it was claimed since it was queued';
COMMENT ON COLUMN task_queue.fifo_key IS 'tasks with the same key run one after another: all but the first are blocked';
COMMENT ON COLUMN task_queue.caller IS 'who sent the message that is worked on; null: who the task belongs to';

DROP INDEX task_queue_due;
CREATE INDEX task_queue_due ON task_queue (lane, run_at) WHERE worker IS NULL AND NOT blocked;
-- At most one task of a key is not blocked, whatever comes at the same moment.
CREATE UNIQUE INDEX task_queue_fifo_head ON task_queue (tenant_id, fifo_key) WHERE fifo_key IS NOT NULL AND NOT blocked;
CREATE INDEX task_queue_fifo_next ON task_queue (tenant_id, fifo_key, queued_at, task_id) WHERE blocked;

ALTER TABLE effects
    ADD COLUMN worker uuid,
    ADD COLUMN may_act_until timestamptz NOT NULL DEFAULT now();
COMMENT ON COLUMN effects.worker IS 'the process whose attempt began it';
COMMENT ON COLUMN effects.may_act_until IS 'until then that attempt may still be at it, unless its process is gone';

CREATE POLICY core ON idempotency_keys TO dragoman_core USING (true);
GRANT SELECT, INSERT, UPDATE ON idempotency_keys TO dragoman_core;
