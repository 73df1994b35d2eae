-- why: a deleted account is gone for readers at once; its slices and rows are removed after it, in small steps
SET LOCAL lock_timeout = '5s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

ALTER TABLE cost_accounts ADD COLUMN deleted_at timestamptz;
COMMENT ON COLUMN cost_accounts.deleted_at IS 'since when it is gone for readers; the row goes after its last slice';
ALTER TABLE cost_accounts DROP CONSTRAINT cost_accounts_identifier_key;
CREATE UNIQUE INDEX cost_accounts_identifier_key ON cost_accounts (tenant_id, provider, identifier)
    WHERE deleted_at IS NULL;
CREATE INDEX cost_accounts_deleted_idx ON cost_accounts (deleted_at) WHERE deleted_at IS NOT NULL;
GRANT UPDATE (deleted_at) ON cost_accounts TO dragoman_app;

-- An import that is on its way while its account is deleted must not show its rows afterwards. The lock waits for a
-- deletion that has not been committed.
CREATE FUNCTION refuse_slices_of_deleted_accounts() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM 1 FROM cost_accounts
    WHERE tenant_id = NEW.tenant_id AND id = NEW.account_id AND deleted_at IS NULL FOR SHARE;
    IF NOT FOUND THEN
        RAISE foreign_key_violation USING MESSAGE = 'the account of the slice was deleted';
    END IF;
    RETURN NEW;
END $$;
REVOKE ALL ON FUNCTION refuse_slices_of_deleted_accounts FROM PUBLIC;
CREATE TRIGGER slices_need_an_account BEFORE INSERT ON cost_slices
    FOR EACH ROW EXECUTE FUNCTION refuse_slices_of_deleted_accounts();
CREATE TRIGGER shown_slices_need_an_account BEFORE UPDATE OF state ON cost_slices
    FOR EACH ROW WHEN (NEW.state = 'current') EXECUTE FUNCTION refuse_slices_of_deleted_accounts();
