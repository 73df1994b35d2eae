-- why: who is asked to sign what by which provider, how far that is, and proof of every signature that is made here
SET LOCAL lock_timeout = '5s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE TABLE signature_providers (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    provider text NOT NULL,
    base_url text NOT NULL,
    account_id text,
    secret bytea NOT NULL,
    webhook_keys int NOT NULL,
    updated_by text NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT signature_providers_key UNIQUE (tenant_id, provider)
);
CREATE UNIQUE INDEX signature_providers_id ON signature_providers (id);
COMMENT ON COLUMN signature_providers.secret IS 'credential and webhook keys, sealed with the key "vault"';

CREATE TABLE signatures (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    document_id uuid NOT NULL,
    document_version int NOT NULL,
    document_sha256 text NOT NULL,
    title text NOT NULL,
    message text,
    provider text NOT NULL,
    seal boolean NOT NULL,
    signers jsonb NOT NULL,
    status text NOT NULL DEFAULT 'created'
        CHECK (status IN ('created', 'sent', 'delivered', 'signed', 'completed', 'declined', 'voided')),
    status_at timestamptz NOT NULL DEFAULT now(),
    seq int NOT NULL DEFAULT 1,
    provider_key text,
    provider_ref text,
    prepared_task uuid NOT NULL,
    sent_task uuid,
    governance jsonb,
    signed_version int,
    signed_sha256 text,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT signatures_prepared_once UNIQUE (tenant_id, prepared_task)
);
CREATE INDEX signatures_of_document ON signatures (tenant_id, document_id, id DESC);
CREATE INDEX signatures_at_provider ON signatures (tenant_id, provider_ref) WHERE provider_ref IS NOT NULL;
CREATE INDEX signatures_by_key ON signatures (tenant_id, provider_key) WHERE provider_key IS NOT NULL;
CREATE INDEX signatures_waiting ON signatures USING gin (signers jsonb_path_ops)
    WHERE status IN ('sent', 'delivered', 'signed');
CREATE INDEX signatures_to_fetch ON signatures (status_at)
    WHERE status = 'completed' AND signed_sha256 IS NULL;
COMMENT ON COLUMN signatures.sent_task IS 'the only task that may send it';
COMMENT ON COLUMN signatures.provider_key IS 'what the request is called at the provider, chosen before it was told';
COMMENT ON COLUMN signatures.signed_version IS 'of the document: the newest with signatures';

CREATE TABLE signature_history (
    tenant_id uuid NOT NULL,
    signature_id uuid NOT NULL,
    seq int NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    status text NOT NULL,
    actor text NOT NULL,
    source text NOT NULL,
    reason text,
    task_id uuid,
    PRIMARY KEY (tenant_id, signature_id, seq),
    FOREIGN KEY (tenant_id, signature_id) REFERENCES signatures (tenant_id, id)
);

CREATE TABLE signature_evidence (
    tenant_id uuid NOT NULL,
    signature_id uuid NOT NULL,
    seq int NOT NULL,
    sha256 text NOT NULL,
    record bytea NOT NULL,
    proof bytea NOT NULL,
    PRIMARY KEY (tenant_id, signature_id, seq),
    FOREIGN KEY (tenant_id, signature_id) REFERENCES signatures (tenant_id, id)
);

CREATE TABLE signature_webhooks (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    configuration_id uuid NOT NULL,
    digest bytea NOT NULL,
    body bytea NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    outcome text,
    signature_id uuid,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT signature_webhooks_once UNIQUE (tenant_id, configuration_id, digest)
);
CREATE INDEX signature_webhooks_open ON signature_webhooks (received_at) WHERE outcome IS NULL;
COMMENT ON COLUMN signature_webhooks.body IS 'as it came; what was signed is these bytes';
COMMENT ON COLUMN signature_webhooks.outcome IS 'null until it was looked at';

ALTER TABLE signature_providers ENABLE ROW LEVEL SECURITY;
ALTER TABLE signatures ENABLE ROW LEVEL SECURITY;
ALTER TABLE signature_history ENABLE ROW LEVEL SECURITY;
ALTER TABLE signature_evidence ENABLE ROW LEVEL SECURITY;
ALTER TABLE signature_webhooks ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON signature_providers TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON signatures TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON signature_history TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON signature_evidence TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON signature_webhooks TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY core ON signature_providers TO dragoman_core USING (true);
CREATE POLICY core ON signatures TO dragoman_core USING (true);
CREATE POLICY core ON signature_webhooks TO dragoman_core USING (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON signature_providers TO dragoman_app;
GRANT SELECT, INSERT ON signatures, signature_history, signature_evidence, signature_webhooks TO dragoman_app;
GRANT UPDATE (signers, status, status_at, seq, provider_key, provider_ref, sent_task, governance, signed_version, signed_sha256)
    ON signatures TO dragoman_app;
GRANT UPDATE (outcome, signature_id) ON signature_webhooks TO dragoman_app;
-- A webhook says for which configuration it is before anybody knows whose that is; and what was left undone is anybody's.
GRANT SELECT (tenant_id, id, provider) ON signature_providers TO dragoman_core;
GRANT SELECT (tenant_id, id, status, status_at, signed_sha256) ON signatures TO dragoman_core;
GRANT SELECT (tenant_id, id, outcome, received_at) ON signature_webhooks TO dragoman_core;

CREATE FUNCTION empty_signatures() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM signature_webhooks WHERE tenant_id = NEW.id;
    DELETE FROM signature_evidence WHERE tenant_id = NEW.id;
    DELETE FROM signature_history WHERE tenant_id = NEW.id;
    DELETE FROM signatures WHERE tenant_id = NEW.id;
    DELETE FROM signature_providers WHERE tenant_id = NEW.id;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION empty_signatures FROM PUBLIC;
CREATE TRIGGER signatures_go_with_their_tenant AFTER UPDATE OF status ON tenants
    FOR EACH ROW WHEN (NEW.status = 'deleted') EXECUTE FUNCTION empty_signatures();
