-- why: agents of others that query over the agent gateway, each by a client certificate and a key
SET LOCAL lock_timeout = '5s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE TABLE gateway_agents (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    name text NOT NULL,
    endpoint text,
    status text NOT NULL,
    fingerprint bytea NOT NULL,
    certificate_subject text NOT NULL,
    certificate_expires_at timestamptz NOT NULL,
    secret_hash bytea NOT NULL,
    hint text NOT NULL,
    previous_fingerprint bytea,
    previous_secret_hash bytea,
    previous_until timestamptz,
    scopes text[] NOT NULL,
    per_min int,
    version int NOT NULL DEFAULT 1,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT gateway_agents_certificate_key UNIQUE (tenant_id, fingerprint)
);
COMMENT ON COLUMN gateway_agents.fingerprint IS 'SHA-256 of the client certificate in DER';
COMMENT ON COLUMN gateway_agents.previous_until IS 'until then the certificate and the key before a rotation are good too';
-- Before there is a caller, there is no tenant to look in.
CREATE INDEX gateway_agents_id_idx ON gateway_agents (id);

ALTER TABLE gateway_agents ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON gateway_agents TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT, DELETE ON gateway_agents TO dragoman_app;
GRANT UPDATE (name, endpoint, status, fingerprint, certificate_subject, certificate_expires_at, secret_hash, hint,
    previous_fingerprint, previous_secret_hash, previous_until, scopes, per_min, version, updated_at)
    ON gateway_agents TO dragoman_app;

CREATE FUNCTION auth_find_gateway_agent(agent_id uuid) RETURNS TABLE (
    tenant_id uuid, slug text, plan text, tenant_status text, name text, status text, fingerprint bytea,
    secret_hash bytea, previous_fingerprint bytea, previous_secret_hash bytea, previous_until timestamptz,
    scopes text[], per_min int, created_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS
$$ SELECT a.tenant_id, t.slug, t.plan, t.status, a.name, a.status, a.fingerprint, a.secret_hash,
          a.previous_fingerprint, a.previous_secret_hash, a.previous_until, a.scopes, a.per_min, a.created_at
   FROM gateway_agents a JOIN tenants t ON t.id = a.tenant_id WHERE a.id = agent_id $$;
REVOKE ALL ON FUNCTION auth_find_gateway_agent FROM PUBLIC;
GRANT EXECUTE ON FUNCTION auth_find_gateway_agent TO dragoman_app;

CREATE FUNCTION empty_gateway_agents() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM gateway_agents WHERE tenant_id = NEW.id;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION empty_gateway_agents FROM PUBLIC;
CREATE TRIGGER gateway_agents_go_with_their_tenant AFTER UPDATE OF status ON tenants
    FOR EACH ROW WHEN (NEW.status = 'deleted') EXECUTE FUNCTION empty_gateway_agents();
