-- Creates the three roles that Patroni needs. deploy/patroni/write-files replaces the passwords. This file can be run repeatedly.
DO $$
DECLARE
    missing text;
BEGIN
    FOR missing IN SELECT name FROM unnest(ARRAY['postgres', 'replicator', 'rewinder']) AS name WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) LOOP
        EXECUTE format('CREATE ROLE %I', missing);
    END LOOP;
END $$;
ALTER ROLE postgres SUPERUSER LOGIN PASSWORD 'SUPERUSER_PASSWORD';
ALTER ROLE replicator REPLICATION LOGIN PASSWORD 'REPLICATOR_PASSWORD';
ALTER ROLE rewinder LOGIN PASSWORD 'REWINDER_PASSWORD';
GRANT EXECUTE ON FUNCTION pg_ls_dir(text, boolean, boolean), pg_stat_file(text, boolean), pg_read_binary_file(text),
  pg_read_binary_file(text, bigint, bigint, boolean) TO rewinder;
