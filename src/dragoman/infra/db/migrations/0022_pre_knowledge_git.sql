-- why: git's objects and branches of knowledge are rows, so that every server decides alike and a back-up of the database is whole
SET LOCAL lock_timeout = '5s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

ALTER TABLE knowledge_repositories ADD COLUMN kept boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN knowledge_repositories.kept IS 'the repository is in these tables; before, it was in a directory of a server';

CREATE TABLE knowledge_refs (
    tenant_id uuid NOT NULL,
    name text NOT NULL,
    target text NOT NULL,
    PRIMARY KEY (tenant_id, name)
);
COMMENT ON TABLE knowledge_refs IS 'the branches of a repository of knowledge and the commits that they are at';

CREATE TABLE knowledge_packs (
    tenant_id uuid NOT NULL,
    name text NOT NULL,
    objects int NOT NULL,
    pack bytea NOT NULL,
    idx bytea NOT NULL,
    PRIMARY KEY (tenant_id, name)
);
-- Git has compressed it.
ALTER TABLE knowledge_packs ALTER COLUMN pack SET STORAGE EXTERNAL, ALTER COLUMN idx SET STORAGE EXTERNAL;
COMMENT ON TABLE knowledge_packs IS 'the objects of a repository of knowledge, as pack files of git with their indexes';

ALTER TABLE knowledge_refs ENABLE ROW LEVEL SECURITY;
ALTER TABLE knowledge_packs ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON knowledge_refs TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON knowledge_packs TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT, UPDATE, DELETE ON knowledge_refs TO dragoman_app;
GRANT SELECT, INSERT, DELETE ON knowledge_packs TO dragoman_app;

CREATE FUNCTION forget_knowledge_git() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM knowledge_refs WHERE tenant_id = NEW.id;
    DELETE FROM knowledge_packs WHERE tenant_id = NEW.id;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION forget_knowledge_git FROM PUBLIC;
CREATE TRIGGER forget_knowledge_git AFTER UPDATE OF status ON tenants
    FOR EACH ROW WHEN (NEW.status = 'deleted') EXECUTE FUNCTION forget_knowledge_git();
