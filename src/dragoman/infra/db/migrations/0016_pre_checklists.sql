-- why: closing checklists, every patch that led to what stands in them, and what was validated a moment ago
SET LOCAL lock_timeout = '5s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE TABLE checklists (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    name text,
    matter_id text,
    revision int NOT NULL,
    content jsonb NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT checklists_name_key UNIQUE (tenant_id, name)
);

CREATE TABLE checklist_patches (
    tenant_id uuid NOT NULL,
    checklist_id uuid NOT NULL,
    patch_id text NOT NULL,
    digest bytea NOT NULL,
    mode text NOT NULL,
    revision int NOT NULL,
    source_event text,
    operations jsonb NOT NULL,
    made_by text NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now(),
    task_id uuid,
    PRIMARY KEY (tenant_id, checklist_id, patch_id),
    FOREIGN KEY (tenant_id, checklist_id) REFERENCES checklists (tenant_id, id)
);
COMMENT ON COLUMN checklist_patches.revision IS 'of the checklist after it; a proposed patch leaves it as it is';

CREATE TABLE checklist_validations (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    checklist_id uuid NOT NULL,
    digest bytea NOT NULL,
    revision int NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, checklist_id) REFERENCES checklists (tenant_id, id)
);

ALTER TABLE checklists ENABLE ROW LEVEL SECURITY;
ALTER TABLE checklist_patches ENABLE ROW LEVEL SECURITY;
ALTER TABLE checklist_validations ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON checklists TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON checklist_patches TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON checklist_validations TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT ON checklists, checklist_patches, checklist_validations TO dragoman_app;
GRANT DELETE ON checklist_validations TO dragoman_app;
GRANT UPDATE (content, revision, updated_at) ON checklists TO dragoman_app;

CREATE FUNCTION empty_checklists() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM checklist_validations WHERE tenant_id = NEW.id;
    DELETE FROM checklist_patches WHERE tenant_id = NEW.id;
    DELETE FROM checklists WHERE tenant_id = NEW.id;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION empty_checklists FROM PUBLIC;
CREATE TRIGGER checklists_go_with_their_tenant AFTER UPDATE OF status ON tenants
    FOR EACH ROW WHEN (NEW.status = 'deleted') EXECUTE FUNCTION empty_checklists();
