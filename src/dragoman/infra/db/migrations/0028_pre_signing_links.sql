-- why: a signer without an account answers a one-time link; the running release neither makes nor reads one
SET LOCAL lock_timeout = '5s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE TABLE signing_links (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    signature_id uuid NOT NULL,
    email text NOT NULL,
    code bytea NOT NULL,
    made_by text NOT NULL,
    made_with text NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    ended_at timestamptz,
    ended_as text CHECK (ended_as IN ('signed', 'declined', 'replaced')),
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, signature_id) REFERENCES signatures (tenant_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX signing_links_code ON signing_links (code);
CREATE UNIQUE INDEX signing_links_open ON signing_links (tenant_id, signature_id, email) WHERE ended_at IS NULL;
COMMENT ON TABLE signing_links IS 'how signers without an account prove an address; of each signer one is open at a time';
COMMENT ON COLUMN signing_links.code IS 'a keyed hash: the code itself is shown once, to who made it';
COMMENT ON COLUMN signing_links.made_with IS 'the credential of the maker';

ALTER TABLE signing_links ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON signing_links TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT ON signing_links TO dragoman_app;
GRANT UPDATE (ended_at, ended_as) ON signing_links TO dragoman_app;

-- Asked before there is a caller. What was answered, replaced, called off or has expired is not there.
CREATE FUNCTION auth_find_signing_link(link_code bytea)
RETURNS TABLE (tenant_id uuid, slug text, plan text, status text, link_id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS
$$ SELECT l.tenant_id, t.slug, t.plan, t.status, l.id
   FROM signing_links l
   JOIN tenants t ON t.id = l.tenant_id
   JOIN signatures s ON s.tenant_id = l.tenant_id AND s.id = l.signature_id
   WHERE l.code = link_code AND l.ended_at IS NULL AND l.expires_at > now()
     AND s.status IN ('sent', 'delivered', 'signed') $$;
REVOKE ALL ON FUNCTION auth_find_signing_link FROM PUBLIC;
GRANT EXECUTE ON FUNCTION auth_find_signing_link TO dragoman_app;

CREATE FUNCTION empty_signing_links() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM signing_links WHERE tenant_id = NEW.id;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION empty_signing_links FROM PUBLIC;
CREATE TRIGGER empty_signing_links AFTER UPDATE OF status ON tenants
    FOR EACH ROW WHEN (NEW.status = 'deleted') EXECUTE FUNCTION empty_signing_links();
