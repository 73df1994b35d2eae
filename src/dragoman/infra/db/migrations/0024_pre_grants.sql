-- why: who an agent acts for is checked against a grant of that person; the running release knows neither
SET LOCAL lock_timeout = '5s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE TABLE grants (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    agent text NOT NULL,
    on_behalf_of text NOT NULL,
    actions text[] NOT NULL,
    expires_at timestamptz,
    reason text,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    ended_by text,
    ended_at timestamptz,
    end_reason text,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX grants_active ON grants (tenant_id, agent, on_behalf_of) WHERE ended_at IS NULL;
COMMENT ON TABLE grants IS 'who may act for whom; it gives no permissions';
COMMENT ON COLUMN grants.actions IS 'names or name.*; every action if empty';

ALTER TABLE grants ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON grants TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT ON grants TO dragoman_app;
GRANT UPDATE (ended_by, ended_at, end_reason) ON grants TO dragoman_app;

CREATE FUNCTION forget_grants() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM grants WHERE tenant_id = NEW.id;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION forget_grants FROM PUBLIC;
CREATE TRIGGER forget_grants AFTER UPDATE OF status ON tenants
    FOR EACH ROW WHEN (NEW.status = 'deleted') EXECUTE FUNCTION forget_grants();

ALTER TABLE approvals ADD COLUMN grants jsonb NOT NULL DEFAULT '{}';
COMMENT ON COLUMN approvals.grants IS 'of actor and on_behalf_of those that were checked: the name, and the id of the grant';
