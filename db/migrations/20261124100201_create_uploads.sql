-- migrate:up
-- squawk-ignore-file prefer-bigint-over-int
-- An upload has at most 400 parts.
-- Uploads are in the database, so that every server can work on a file, also after the server that received it was killed.
CREATE TABLE uploads (
    id bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT uploads_pkey PRIMARY KEY,
    company_id bigint NOT NULL,
    submitted_by text NOT NULL,
    name text NOT NULL,
    size bigint,
    used_by text,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT uploads_company_id_fkey FOREIGN KEY (company_id) REFERENCES companies (id) ON DELETE CASCADE,
    CONSTRAINT uploads_name_length CHECK (char_length(name) <= 255),
    CONSTRAINT uploads_size_not_negative CHECK (size >= 0),
    CONSTRAINT uploads_used_by_length CHECK (char_length(used_by) BETWEEN 1 AND 100),
    CONSTRAINT uploads_used_are_complete CHECK (used_by IS NULL OR size IS NOT NULL)
);
CREATE INDEX uploads_company_id_idx ON uploads (company_id);
-- Those that are deleted when nobody has begun to use them within an hour.
CREATE INDEX uploads_unused_idx ON uploads (created_at) WHERE used_by IS NULL;
COMMENT ON TABLE uploads IS
    'A file that a request brought, until it is worked up. Written by internal/upload; the package that works it up deletes it.';
COMMENT ON COLUMN uploads.submitted_by IS 'the user who sent it; no foreign key: the configured user is in no table';
COMMENT ON COLUMN uploads.name IS 'of the file, as its owner calls it; may be empty';
COMMENT ON COLUMN uploads.size IS 'bytes; null: it is still being received, or its request was broken off';
COMMENT ON COLUMN uploads.used_by IS 'what needs the file, as in "batch 17"; null: nothing yet, and the file is deleted after an hour';

CREATE TABLE upload_parts (
    upload_id bigint NOT NULL,
    part integer NOT NULL,
    bytes bytea NOT NULL,
    CONSTRAINT upload_parts_pkey PRIMARY KEY (upload_id, part),
    CONSTRAINT upload_parts_upload_id_fkey FOREIGN KEY (upload_id) REFERENCES uploads (id) ON DELETE CASCADE,
    CONSTRAINT upload_parts_bytes_length CHECK (octet_length(bytes) BETWEEN 1 AND 262144)
);
-- A workbook is compressed already, and a list lives for minutes.
ALTER TABLE upload_parts ALTER COLUMN bytes SET STORAGE EXTERNAL;
COMMENT ON TABLE upload_parts IS '262,144 bytes of an upload, less in the last part. Written once by internal/upload.';
COMMENT ON COLUMN upload_parts.part IS 'from 0';

-- migrate:down
DROP TABLE upload_parts;
DROP TABLE uploads;
