-- why: row-level security holds for the owner of the tables too; what must see all rows does so in a role of its own
SET LOCAL lock_timeout = '5s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- As in 0001: the role may have been made by another database, a process beside us, or an administrator.
DO $$
BEGIN
    BEGIN
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'dragoman_definer') THEN
            CREATE ROLE dragoman_definer NOSUPERUSER NOBYPASSRLS NOLOGIN;
        END IF;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
    END;
    BEGIN
        IF NOT pg_has_role(current_user, 'dragoman_definer', 'USAGE') THEN
            EXECUTE format('GRANT dragoman_definer TO %I', current_user);
        END IF;
    EXCEPTION WHEN unique_violation THEN NULL;
    END;
END $$;

-- Run after every migration, so that a table or a function that comes later needs no line of its own. A part of a table
-- is locked like its whole, and has no policy: it is read through its whole alone.
CREATE FUNCTION force_row_security() RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    found record;
BEGIN
    IF NOT pg_has_role(current_user, 'dragoman_definer', 'USAGE') THEN
        RAISE EXCEPTION 'GRANT dragoman_definer TO %, which must inherit it', current_user
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    FOR found IN
        SELECT c.oid::regclass AS place, c.relispartition AS part
        FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid LEFT JOIN pg_class whole ON whole.oid = i.inhparent
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relforcerowsecurity
          AND (c.relrowsecurity OR (c.relispartition AND whole.relrowsecurity))
    LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', found.place);
        IF NOT found.part THEN
            EXECUTE format('CREATE POLICY definer ON %s TO dragoman_definer USING (true)', found.place);
            EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO dragoman_definer', found.place);
        END IF;
    END LOOP;
    FOR found IN
        SELECT p.oid::regprocedure AS place FROM pg_proc p
        WHERE p.pronamespace = current_schema()::regnamespace AND p.prosecdef
          AND p.proowner <> 'dragoman_definer'::regrole
    LOOP
        EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %I TO dragoman_definer', current_schema());
        EXECUTE format('ALTER FUNCTION %s OWNER TO dragoman_definer', found.place);
        EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM dragoman_definer', current_schema());
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION force_row_security FROM PUBLIC;

-- A server whose login owns nothing still has to see whether the schema is the one that it needs.
GRANT SELECT ON schema_migrations TO PUBLIC;
