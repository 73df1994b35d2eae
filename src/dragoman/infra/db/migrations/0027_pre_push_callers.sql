-- 0027_pre_push_callers.sql   why: nothing is delivered for a caller who is no longer let in; who made the older ones is unknown
SET LOCAL lock_timeout = '2s';
ALTER TABLE push_configs ADD COLUMN caller jsonb;
