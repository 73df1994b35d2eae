-- 0026_pre_thread_owners.sql   why: a conversation belongs to its owner, so two owners may use the same context id;
-- no release has been made that names the old key
SET LOCAL lock_timeout = '2s';
ALTER TABLE threads DROP CONSTRAINT threads_pkey, ADD PRIMARY KEY (tenant_id, owner, thread_id);
