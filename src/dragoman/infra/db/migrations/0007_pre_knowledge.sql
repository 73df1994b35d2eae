-- why: an index of what stands in each tenant's git repository; it can be made again from there at any time
SET LOCAL lock_timeout = '5s';

CREATE TABLE knowledge_repositories (
    tenant_id uuid PRIMARY KEY,
    remote text,
    branch text,
    indexed text,
    indexing text,
    synced text,
    synced_at timestamptz
);
COMMENT ON COLUMN knowledge_repositories.indexed IS 'the commit of the main branch that the index shows';
COMMENT ON COLUMN knowledge_repositories.indexing IS 'the commit that the index is on its way to; a batch from another one is too late';
COMMENT ON COLUMN knowledge_repositories.synced IS 'the commit of the remote that was merged last';

CREATE TABLE knowledge_items (
    tenant_id uuid NOT NULL,
    branch text NOT NULL,
    path text NOT NULL,
    blob text NOT NULL,
    id text NOT NULL,
    type text NOT NULL,
    layer text NOT NULL,
    layer_id text,
    title text NOT NULL,
    summary text NOT NULL,
    status text NOT NULL,
    severity text NOT NULL,
    tags text[] NOT NULL,
    content text NOT NULL,
    content_hash text NOT NULL,
    constraints jsonb NOT NULL,
    metadata jsonb NOT NULL,
    supersedes text[] NOT NULL,
    superseded_by text,
    links text[] NOT NULL,
    version int NOT NULL,
    commit text NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    shadowed boolean NOT NULL DEFAULT false,
    search tsvector NOT NULL,
    PRIMARY KEY (tenant_id, branch, path)
);
CREATE INDEX knowledge_items_id ON knowledge_items (tenant_id, id);
CREATE INDEX knowledge_items_search ON knowledge_items USING gin (search);
CREATE INDEX knowledge_items_newest ON knowledge_items (tenant_id, updated_at DESC);
COMMENT ON COLUMN knowledge_items.branch IS 'main, or the branch of a proposal';
COMMENT ON COLUMN knowledge_items.shadowed IS 'another file of the branch has the same id and comes first';

CREATE TABLE knowledge_problems (
    tenant_id uuid NOT NULL,
    path text NOT NULL,
    kind text NOT NULL,
    blob text NOT NULL,
    line int NOT NULL,
    item_id text,
    message text NOT NULL,
    PRIMARY KEY (tenant_id, path, kind)
);
COMMENT ON TABLE knowledge_problems IS 'what the index found wrong with a file of the main branch, until the file is mended';

ALTER TABLE knowledge_repositories ENABLE ROW LEVEL SECURITY;
ALTER TABLE knowledge_items ENABLE ROW LEVEL SECURITY;
ALTER TABLE knowledge_problems ENABLE ROW LEVEL SECURITY;

CREATE POLICY own ON knowledge_repositories TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON knowledge_items TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON knowledge_problems TO dragoman_app USING (tenant_id = (SELECT current_tenant()));

GRANT SELECT, INSERT, UPDATE, DELETE ON knowledge_repositories, knowledge_items, knowledge_problems TO dragoman_app;
