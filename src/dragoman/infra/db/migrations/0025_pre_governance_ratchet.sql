-- why: drift is compared with the best state that was accepted, and decided again with the suppressions of its time; the
-- running release reads neither column. Documents that an earlier release could not read are listed as it is done now
SET LOCAL lock_timeout = '5s';

ALTER TABLE governance_decisions
    ADD COLUMN accepted jsonb,
    ADD COLUMN suppressions uuid[];
COMMENT ON COLUMN governance_decisions.accepted IS
    'violations that later checks of the project may have, by fingerprint with their file; null when it did not pass';
COMMENT ON COLUMN governance_decisions.suppressions IS 'those that were alive; null in records of earlier releases';

INSERT INTO knowledge_problems (tenant_id, path, kind, blob, line, item_id, message)
SELECT tenant_id, path, 'unreadable_policy', blob, line, NULL,
       'until it can be read, checks fail and every action is forbidden'
FROM knowledge_problems
WHERE kind = 'malformed' AND path ~ '^(company|(orgs|teams|projects)/[^/]+)/policies/'
ON CONFLICT DO NOTHING;
