-- why: consent is bound to what a resource is, and a name that nobody checked is a claim; the running release reads neither
SET LOCAL lock_timeout = '5s';

ALTER TABLE approvals
    ADD COLUMN facts jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN actor text,
    ADD COLUMN on_behalf_of text;
CREATE INDEX approvals_of_resource ON approvals (tenant_id, (resource ->> 'type'), (resource ->> 'id'), id DESC);
COMMENT ON COLUMN approvals.facts IS 'what else is known of the resource, such as who signs it; a part of the digest';
COMMENT ON COLUMN approvals.actor IS 'who is to act, as stated; among the parties only when that was checked';
COMMENT ON COLUMN approvals.on_behalf_of IS 'for whom, as stated; among the parties only when that was checked';
