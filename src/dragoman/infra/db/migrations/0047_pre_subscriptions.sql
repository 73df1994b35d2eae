-- why: other systems are told of what happens here; an event is kept for each subscription to it, with what it tells of
SET LOCAL lock_timeout = '5s';
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE TABLE subscriptions (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    url text NOT NULL,
    events text[] NOT NULL,
    description text,
    state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'disabled')),
    reason text,
    secret bytea NOT NULL,
    previous_secret bytea,
    previous_until timestamptz,
    caller jsonb NOT NULL,
    created_by text NOT NULL,
    version int NOT NULL DEFAULT 1,
    failures int NOT NULL DEFAULT 0,
    failing_since timestamptz,
    due_at timestamptz NOT NULL DEFAULT now(),
    delivered_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id)
);
-- Asked by everything that could be an event, of tenants that mostly have none.
CREATE INDEX subscriptions_active ON subscriptions (tenant_id) WHERE state = 'active';
CREATE UNIQUE INDEX subscriptions_id ON subscriptions (id);
COMMENT ON COLUMN subscriptions.events IS 'types of events: task.finished, task.* or *';
COMMENT ON COLUMN subscriptions.secret IS 'what signs, sealed with the key "vault"; the previous one signs too for a while';
COMMENT ON COLUMN subscriptions.caller IS 'who made it: nothing is delivered when they are no longer permitted';
COMMENT ON COLUMN subscriptions.failures IS 'attempts in a row that failed';
COMMENT ON COLUMN subscriptions.due_at IS 'nothing is sent before: the receiver has asked for time, or does not answer';

CREATE TABLE subscription_deliveries (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    subscription_id uuid NOT NULL,
    message_id text NOT NULL,
    type text NOT NULL,
    subject text,
    data jsonb NOT NULL,
    occurred_at timestamptz NOT NULL,
    state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed')),
    attempts int NOT NULL DEFAULT 0,
    history jsonb NOT NULL DEFAULT '[]',
    due_at timestamptz NOT NULL DEFAULT now(),
    worker uuid,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX subscription_deliveries_due ON subscription_deliveries (subscription_id, due_at) WHERE state = 'pending';
CREATE INDEX subscription_deliveries_of ON subscription_deliveries (tenant_id, subscription_id, id);
CREATE INDEX subscription_deliveries_of_worker ON subscription_deliveries (worker) WHERE worker IS NOT NULL;
CREATE INDEX subscription_deliveries_age ON subscription_deliveries (occurred_at);
COMMENT ON COLUMN subscription_deliveries.message_id IS 'the header webhook-id: the same for every attempt and every subscription';
COMMENT ON COLUMN subscription_deliveries.history IS 'what became of each attempt, the latest last';
COMMENT ON COLUMN subscription_deliveries.due_at IS 'when to send it next; while a worker has it, the end of its lease';

ALTER TABLE subscriptions ENABLE ROW LEVEL SECURITY;
ALTER TABLE subscription_deliveries ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON subscriptions TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY own ON subscription_deliveries TO dragoman_app USING (tenant_id = (SELECT current_tenant()));
CREATE POLICY core ON subscriptions TO dragoman_core USING (true);
CREATE POLICY core ON subscription_deliveries TO dragoman_core USING (true);
GRANT SELECT, INSERT, DELETE ON subscriptions TO dragoman_app;
GRANT UPDATE (url, events, description, state, reason, secret, previous_secret, previous_until, caller, version, failures,
    failing_since, due_at, updated_at) ON subscriptions TO dragoman_app;
GRANT SELECT ON subscriptions TO dragoman_core;
GRANT UPDATE (state, reason, failures, failing_since, due_at, delivered_at, version, updated_at)
    ON subscriptions TO dragoman_core;
GRANT SELECT, INSERT, DELETE ON subscription_deliveries TO dragoman_app;
GRANT UPDATE (state, attempts, due_at, worker) ON subscription_deliveries TO dragoman_app;
GRANT SELECT, INSERT, DELETE ON subscription_deliveries TO dragoman_core;
GRANT UPDATE (state, attempts, history, due_at, worker) ON subscription_deliveries TO dragoman_core;

-- A UUIDv7 of the database's own: only a statement that finds a subscription knows how many rows there will be.
CREATE FUNCTION new_delivery_id() RETURNS uuid LANGUAGE sql VOLATILE SET search_path FROM CURRENT AS $$
SELECT encode(
    set_bit(set_bit(
        overlay(uuid_send(gen_random_uuid())
                PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        52, 1), 53, 1), 'hex')::uuid $$;
REVOKE ALL ON FUNCTION new_delivery_id FROM PUBLIC;
GRANT EXECUTE ON FUNCTION new_delivery_id TO dragoman_app, dragoman_core;

CREATE FUNCTION empty_subscriptions() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM subscription_deliveries WHERE tenant_id = NEW.id;
    DELETE FROM subscriptions WHERE tenant_id = NEW.id;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION empty_subscriptions FROM PUBLIC;
CREATE TRIGGER subscriptions_go_with_their_tenant AFTER UPDATE OF status ON tenants
    FOR EACH ROW WHEN (NEW.status = 'deleted') EXECUTE FUNCTION empty_subscriptions();
