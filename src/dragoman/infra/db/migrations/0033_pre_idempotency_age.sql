-- no-transaction  0033_pre_idempotency_age.sql   why: old keys are removed with what they answered, along this index
DROP INDEX CONCURRENTLY IF EXISTS idempotency_keys_age;
CREATE INDEX CONCURRENTLY idempotency_keys_age ON idempotency_keys (created_at);
