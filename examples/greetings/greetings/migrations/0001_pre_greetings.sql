-- why: greetings that were said
SET LOCAL lock_timeout = '5s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE TABLE greetings (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    name text NOT NULL,
    words text NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
ALTER TABLE greetings ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON greetings TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT ON greetings TO dragoman_app;

CREATE FUNCTION empty_greetings() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM greetings WHERE tenant_id = NEW.id;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION empty_greetings FROM PUBLIC;
CREATE TRIGGER greetings_go_with_their_tenant AFTER UPDATE OF status ON tenants
    FOR EACH ROW WHEN (NEW.status = 'deleted') EXECUTE FUNCTION empty_greetings();
