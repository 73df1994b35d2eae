-- why: the deliverer of push notifications must know which tenants are suspended, and nothing else of them
SET LOCAL lock_timeout = '5s';

CREATE POLICY core ON tenants FOR SELECT TO dragoman_core USING (true);
GRANT SELECT (id, status) ON tenants TO dragoman_core;
