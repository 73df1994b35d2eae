-- 0038_pre_platform_revocations.sql   why: tokens of super_admins are voided by entries of super_admins alone
SET LOCAL lock_timeout = '2s';
-- Nothing says who wrote the entries so far: what is refused stays refused.
INSERT INTO revocations (tenant_id, ref, not_before, reason, created_at)
SELECT tenant_id, 'super:' || ref, not_before, reason, created_at FROM revocations WHERE ref ~ '^(cred|user):'
ON CONFLICT DO NOTHING;
