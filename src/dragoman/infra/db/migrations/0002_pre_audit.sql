-- why: who did what, provably: records are written with the operation, sealed into a signed chain per tenant right after
SET LOCAL lock_timeout = '5s';

CREATE TABLE audit_records (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at timestamptz NOT NULL,
    operation text NOT NULL,
    outcome text NOT NULL,
    subject text NOT NULL,
    body bytea NOT NULL,
    mac bytea NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX audit_records_xid ON audit_records (xid, id);
-- What is looked for is the exception; this one costs an ordinary write nothing.
CREATE INDEX audit_records_not_done ON audit_records (tenant_id, id) WHERE outcome <> 'done';
COMMENT ON COLUMN audit_records.body IS 'canonical JSON (RFC 8785); bytes, because jsonb rewrites numbers';
COMMENT ON COLUMN audit_records.subject IS 'like at, operation and outcome a copy from the body, to filter by';
COMMENT ON COLUMN audit_records.xid IS 'the writing transaction: what is older than every running one can be sealed';

CREATE TABLE audit_links (
    tenant_id uuid NOT NULL,
    seq bigint NOT NULL CHECK (seq > 0),
    record_id uuid NOT NULL,
    hash bytea NOT NULL,
    PRIMARY KEY (tenant_id, seq)
);
CREATE UNIQUE INDEX audit_links_record ON audit_links (tenant_id, record_id);

CREATE TABLE audit_heads (
    tenant_id uuid NOT NULL,
    seq bigint NOT NULL,
    hash bytea NOT NULL,
    sealed_at text NOT NULL,
    key_id text NOT NULL,
    signature bytea NOT NULL,
    PRIMARY KEY (tenant_id, seq)
);

CREATE TABLE audit_watermark (
    sole boolean PRIMARY KEY DEFAULT true CHECK (sole),
    xid xid8 NOT NULL,
    id uuid NOT NULL
);
COMMENT ON TABLE audit_watermark IS 'the sealer has dealt with every record up to this one, in the order of (xid, id)';
INSERT INTO audit_watermark (xid, id) VALUES ('0', '00000000-0000-0000-0000-000000000000');

ALTER TABLE audit_records ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_links ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_heads ENABLE ROW LEVEL SECURITY;

CREATE POLICY own ON audit_records TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON audit_links TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON audit_heads TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY core ON audit_records TO dragoman_core USING (true);
CREATE POLICY core ON audit_links TO dragoman_core USING (true);
CREATE POLICY core ON audit_heads TO dragoman_core USING (true);

-- Append only: the application and the core add records, the sealer adds seals, and neither may change or remove any.
-- Not the xid: a record that names another transaction than its own would be passed over.
GRANT SELECT, INSERT (tenant_id, id, at, operation, outcome, subject, body, mac) ON audit_records TO dragoman_app;
GRANT SELECT ON audit_links, audit_heads, audit_watermark TO dragoman_app;
GRANT SELECT, INSERT (tenant_id, id, at, operation, outcome, subject, body, mac) ON audit_records TO dragoman_core;
GRANT SELECT, INSERT ON audit_links, audit_heads TO dragoman_core;
GRANT SELECT, UPDATE ON audit_watermark TO dragoman_core;
