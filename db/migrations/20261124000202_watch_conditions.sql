-- migrate:up
-- What alert rules look at and no other table holds.
CREATE TABLE disk_spaces (
    host text NOT NULL,
    folder text NOT NULL,
    bytes bigint NOT NULL,
    free_bytes bigint NOT NULL,
    measured_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT disk_spaces_pkey PRIMARY KEY (host, folder)
);
COMMENT ON TABLE disk_spaces IS 'The file system of a folder that one server uses. Written by internal/alert on that server, once a minute; rows of servers that are gone are deleted after a day.';
COMMENT ON COLUMN disk_spaces.free_bytes IS 'what an ordinary user may still use';

-- Building the index reads the table and keeps callbacks out meanwhile: a table of a million receipts takes a second.
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX receipts_sender_idx ON receipts (sender_no, id);

-- migrate:down
DROP INDEX receipts_sender_idx;
DROP TABLE disk_spaces;
