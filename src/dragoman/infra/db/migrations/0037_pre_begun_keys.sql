-- 0037_pre_begun_keys.sql   why: of several long writes with one key at one moment only the first runs; the running release never reads this column
SET LOCAL lock_timeout = '2s';
ALTER TABLE idempotency_keys ADD COLUMN begun_until timestamptz;
COMMENT ON COLUMN idempotency_keys.begun_until IS 'a long write is under way, until then at least; without an output it may be begun again after that';
GRANT DELETE ON idempotency_keys TO dragoman_core;
