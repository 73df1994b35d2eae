-- 0032_pre_knowledge_remotes.sql   why: remotes that are private need credentials, each tenant its own; the running release knows none
SET LOCAL lock_timeout = '2s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE TABLE knowledge_remotes (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    remote text NOT NULL,
    kind text NOT NULL,
    username text NOT NULL,
    public_key text,
    host_keys text[] NOT NULL DEFAULT '{}',
    secret bytea NOT NULL,
    updated_by text NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, remote)
);
COMMENT ON TABLE knowledge_remotes IS 'credentials of git remotes, sealed each for its tenant and its remote';

ALTER TABLE knowledge_remotes ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON knowledge_remotes TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT, UPDATE, DELETE ON knowledge_remotes TO dragoman_app;

CREATE FUNCTION forget_knowledge_remotes() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM knowledge_remotes WHERE tenant_id = NEW.id;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION forget_knowledge_remotes FROM PUBLIC;
CREATE TRIGGER forget_knowledge_remotes AFTER UPDATE OF status ON tenants
    FOR EACH ROW WHEN (NEW.status = 'deleted') EXECUTE FUNCTION forget_knowledge_remotes();
