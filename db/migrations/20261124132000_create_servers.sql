-- migrate:up
-- The servers of this database write here which roles they have, so that each knows whether another one does what it leaves out.
CREATE TABLE servers (
    server_id text COLLATE "C" NOT NULL,
    host text NOT NULL,
    roles text[] NOT NULL,
    version text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT servers_pkey PRIMARY KEY (server_id),
    CONSTRAINT servers_roles_check CHECK (cardinality(roles) > 0)
);
COMMENT ON TABLE servers IS 'A server that runs, or ran within a day. Written by internal/servers.';
COMMENT ON COLUMN servers.seen_at IS 'When the server last wrote this row. It does so every few seconds, and deletes the row when it stops.';

-- migrate:down
DROP TABLE servers;
