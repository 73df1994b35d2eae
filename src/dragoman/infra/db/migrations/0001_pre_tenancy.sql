-- why: tenants, their users and keys, and what was revoked; every row is locked to its tenant by row-level security
SET LOCAL lock_timeout = '5s';

-- Roles belong to the whole cluster: another database, a process that starts beside us, or an administrator who keeps
-- CREATEROLE to themselves may have made them.
DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['dragoman_app', 'dragoman_core'] LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
                EXECUTE format('CREATE ROLE %I NOSUPERUSER NOBYPASSRLS NOLOGIN', wanted);
            END IF;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
        END;
        BEGIN
            IF NOT pg_has_role(current_user, wanted, 'MEMBER') THEN
                EXECUTE format('GRANT %I TO %I', wanted, current_user);
            END IF;
        EXCEPTION WHEN unique_violation THEN NULL;
        END;
    END LOOP;
END $$;

-- What the functions below keep as their path: a temporary table must not stand in for one of ours.
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE FUNCTION current_tenant() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT nullif(current_setting('dragoman.tenant', true), '')::uuid $$;

CREATE FUNCTION on_platform() RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT coalesce(current_setting('dragoman.platform', true), '') = 'on' $$;

CREATE TABLE tenants (
    id uuid PRIMARY KEY,
    slug text NOT NULL CONSTRAINT tenants_slug_key UNIQUE,
    name text NOT NULL,
    plan text NOT NULL,
    status text NOT NULL,
    settings jsonb NOT NULL DEFAULT '{}',
    version int NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON COLUMN tenants.slug IS 'never used again, not even after deletion: old tokens name it';

CREATE TABLE users (
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    id uuid NOT NULL,
    subject text NOT NULL,
    email text NOT NULL,
    name text NOT NULL,
    role text NOT NULL,
    status text NOT NULL,
    invitation bytea,
    invitation_expires_at timestamptz,
    version int NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT users_email_key UNIQUE (tenant_id, email),
    CONSTRAINT users_subject_key UNIQUE (tenant_id, subject)
);

CREATE TABLE api_keys (
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    id uuid NOT NULL,
    name text NOT NULL,
    subject text NOT NULL,
    principal_type text NOT NULL,
    role text NOT NULL,
    scopes text[],
    secret_hash bytea NOT NULL,
    hint text NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    replaced_by uuid,
    PRIMARY KEY (tenant_id, id)
);
CREATE UNIQUE INDEX api_keys_id ON api_keys (id);

CREATE TABLE revocations (
    tenant_id uuid NOT NULL REFERENCES tenants (id),
    ref text NOT NULL,
    not_before timestamptz NOT NULL,
    expires_at timestamptz,
    reason text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, ref)
);
COMMENT ON COLUMN revocations.not_before IS 'credentials issued earlier are refused; infinity refuses all';

CREATE TABLE idempotency_keys (
    tenant_id uuid NOT NULL,
    scope text NOT NULL,
    key text NOT NULL,
    digest bytea NOT NULL,
    output jsonb,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, scope, key)
);

ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
ALTER TABLE users ENABLE ROW LEVEL SECURITY;
ALTER TABLE api_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE revocations ENABLE ROW LEVEL SECURITY;
ALTER TABLE idempotency_keys ENABLE ROW LEVEL SECURITY;

CREATE POLICY own ON tenants TO dragoman_app USING (id = (SELECT current_tenant()) OR (SELECT on_platform()));
CREATE POLICY own ON users TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON api_keys TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
-- Suspending a tenant is the platform's business and is written as a revocation of that tenant.
CREATE POLICY own ON revocations TO dragoman_app USING (tenant_id = (SELECT current_tenant()) OR (SELECT on_platform()));
CREATE POLICY own ON idempotency_keys TO dragoman_app USING (tenant_id = (SELECT current_tenant()));

GRANT SELECT, INSERT, UPDATE ON tenants TO dragoman_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON users, api_keys, revocations, idempotency_keys TO dragoman_app;

-- Before there is a caller there is no tenant: these three answer what authentication must ask, and nothing else.
CREATE FUNCTION auth_find_tenant(ref text) RETURNS TABLE (id uuid, slug text, plan text, status text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS
$$ SELECT t.id, t.slug, t.plan, t.status FROM tenants t WHERE t.slug = ref OR t.id = CASE WHEN ref ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN ref::uuid END $$;

CREATE FUNCTION auth_find_key(key_id uuid) RETURNS TABLE (
    tenant_id uuid, slug text, plan text, status text, subject text, principal_type text, role text,
    scopes text[], secret_hash bytea, created_at timestamptz, expires_at timestamptz, revoked_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS
$$ SELECT k.tenant_id, t.slug, t.plan, t.status, k.subject, k.principal_type, k.role, k.scopes, k.secret_hash,
          k.created_at, k.expires_at, k.revoked_at
   FROM api_keys k JOIN tenants t ON t.id = k.tenant_id WHERE k.id = key_id $$;

CREATE FUNCTION auth_list_revocations() RETURNS TABLE (tenant_id uuid, ref text, not_before timestamptz, expires_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS
$$ SELECT r.tenant_id, r.ref, r.not_before, r.expires_at FROM revocations r
   WHERE r.expires_at IS NULL OR r.expires_at > now() $$;

CREATE FUNCTION auth_find_invitation(code_hash bytea) RETURNS TABLE (tenant_id uuid, slug text, user_id uuid, status text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS
$$ SELECT u.tenant_id, t.slug, u.id, t.status FROM users u JOIN tenants t ON t.id = u.tenant_id
   WHERE u.invitation = code_hash AND u.invitation_expires_at > now() AND u.status = 'invited' $$;
CREATE INDEX users_invitation ON users (invitation) WHERE invitation IS NOT NULL;

-- The platform sees the list of tenants, not what is in them; ending one still has to empty it.
CREATE FUNCTION empty_tenant(gone uuid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT on_platform() THEN
        RAISE EXCEPTION 'only the platform empties a tenant' USING ERRCODE = 'insufficient_privilege';
    END IF;
    DELETE FROM api_keys WHERE tenant_id = gone;
    DELETE FROM users WHERE tenant_id = gone;
    -- They hold what was answered: names and addresses of people.
    DELETE FROM idempotency_keys WHERE tenant_id = gone;
END $$;

REVOKE ALL ON FUNCTION empty_tenant, auth_find_tenant, auth_find_key, auth_list_revocations, auth_find_invitation FROM PUBLIC;
GRANT EXECUTE ON FUNCTION empty_tenant, auth_find_tenant, auth_find_key, auth_list_revocations, auth_find_invitation TO dragoman_app;
