-- why: two processes with different keys must not share one database unnoticed
SET LOCAL lock_timeout = '5s';

CREATE TABLE installation (
    name text PRIMARY KEY,
    fingerprint text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT, INSERT ON installation TO dragoman_app;
