-- why: tenants register workers of their own, and say which worker may perform which action
SET LOCAL lock_timeout = '5s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE TABLE worker_registries (
    tenant_id uuid PRIMARY KEY,
    version bigint NOT NULL
);
COMMENT ON TABLE worker_registries IS 'grows with every change, so that a process can ask whether what it remembers is still so';

CREATE TABLE workers (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    name text NOT NULL,
    kind text NOT NULL,
    url text NOT NULL,
    header text NOT NULL,
    secret bytea,
    actions jsonb NOT NULL,
    enabled boolean NOT NULL DEFAULT true,
    version int NOT NULL DEFAULT 1,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT workers_name_key UNIQUE (tenant_id, name)
);
COMMENT ON COLUMN workers.name IS 'with its kind in front, as it stands in histories: a2a:partner';
COMMENT ON COLUMN workers.header IS 'the header that carries the credential';
COMMENT ON COLUMN workers.secret IS 'the credential, sealed with the key "vault"';

CREATE TABLE worker_rules (
    tenant_id uuid NOT NULL,
    action text NOT NULL,
    worker text NOT NULL,
    allowed boolean NOT NULL,
    preferred boolean NOT NULL DEFAULT false,
    reason text,
    decided_by text NOT NULL,
    decided_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, action, worker),
    CHECK (allowed OR NOT preferred)
);
COMMENT ON COLUMN worker_rules.worker IS 'by its name: workers that come with the server have no row in workers';

ALTER TABLE worker_registries ENABLE ROW LEVEL SECURITY;
ALTER TABLE workers ENABLE ROW LEVEL SECURITY;
ALTER TABLE worker_rules ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON worker_registries TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON workers TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON worker_rules TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT, UPDATE ON worker_registries TO dragoman_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON workers, worker_rules TO dragoman_app;

-- The credentials of a tenant go with it, whoever ends it.
CREATE FUNCTION forget_workers() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM worker_rules WHERE tenant_id = NEW.id;
    DELETE FROM workers WHERE tenant_id = NEW.id;
    UPDATE worker_registries SET version = version + 1 WHERE tenant_id = NEW.id;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION forget_workers FROM PUBLIC;
CREATE TRIGGER forget_workers AFTER UPDATE OF status ON tenants
    FOR EACH ROW WHEN (NEW.status = 'deleted') EXECUTE FUNCTION forget_workers();
