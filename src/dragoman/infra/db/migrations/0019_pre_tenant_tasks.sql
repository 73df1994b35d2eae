-- why: tasks hold what people said, and what was handed over and done: with their tenant they go at once, not some day
SET LOCAL lock_timeout = '5s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE FUNCTION empty_tasks() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    -- The queue first, so that nobody takes up what is about to go.
    DELETE FROM task_queue WHERE tenant_id = NEW.id;
    DELETE FROM push_configs WHERE tenant_id = NEW.id;
    DELETE FROM effects WHERE tenant_id = NEW.id;
    DELETE FROM delegations WHERE tenant_id = NEW.id;
    DELETE FROM task_data WHERE tenant_id = NEW.id;
    DELETE FROM task_keys WHERE tenant_id = NEW.id;
    DELETE FROM task_events WHERE tenant_id = NEW.id;
    DELETE FROM tasks WHERE tenant_id = NEW.id;
    DELETE FROM threads WHERE tenant_id = NEW.id;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION empty_tasks FROM PUBLIC;
CREATE TRIGGER tasks_go_with_their_tenant AFTER UPDATE OF status ON tenants
    FOR EACH ROW WHEN (NEW.status = 'deleted') EXECUTE FUNCTION empty_tasks();
