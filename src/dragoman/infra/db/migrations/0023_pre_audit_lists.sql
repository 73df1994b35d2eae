-- why: records are looked for by what they are about, who did it and which action it was, however long the chain is; no
-- release has the table yet, so that the indexes need not be made beside running writers
SET LOCAL lock_timeout = '5s';

ALTER TABLE audit_records
    ADD COLUMN resource text,
    ADD COLUMN action text,
    ADD COLUMN about text;
COMMENT ON COLUMN audit_records.resource IS 'like those before it a copy from the body, to filter by; cut at 200 characters';
COMMENT ON COLUMN audit_records.action IS 'the action of the task that the record is a step of';
COMMENT ON COLUMN audit_records.about IS 'the id of what that action, or an approval, is about';
-- Ids come in the order of time, those of what is recorded too: each index grows at its end, or at a few places.
CREATE INDEX audit_records_by_subject ON audit_records (tenant_id, subject, id);
CREATE INDEX audit_records_by_operation ON audit_records (tenant_id, operation, id);
CREATE INDEX audit_records_by_resource ON audit_records (tenant_id, resource, id) WHERE resource IS NOT NULL;
CREATE INDEX audit_records_by_action ON audit_records (tenant_id, action, id) WHERE action IS NOT NULL;
CREATE INDEX audit_records_by_about ON audit_records (tenant_id, about, id) WHERE about IS NOT NULL;
GRANT INSERT (resource, action, about) ON audit_records TO dragoman_app, dragoman_core;
