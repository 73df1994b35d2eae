-- 0034_pre_retention.sql   why: revocations of tokens end with the tokens; a job of the core removes them and old keys
SET LOCAL lock_timeout = '2s';
-- Entries that shut somebody out for good are not among them.
CREATE INDEX revocations_ending ON revocations (created_at)
    WHERE ref ~ '^(super:)?cred:' OR not_before < '9999-01-01 00:00:00+00';
CREATE POLICY core ON revocations TO dragoman_core USING (true);
CREATE POLICY core ON api_keys TO dragoman_core USING (true);
GRANT SELECT, DELETE ON revocations TO dragoman_core;
-- FOR UPDATE SKIP LOCKED wants the right to update one column.
GRANT UPDATE (reason) ON revocations TO dragoman_core;
GRANT SELECT (tenant_id, id, subject, created_at, revoked_at) ON api_keys TO dragoman_core;
GRANT DELETE ON idempotency_keys TO dragoman_core;
