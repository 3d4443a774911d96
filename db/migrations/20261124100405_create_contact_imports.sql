-- migrate:up
CREATE TABLE contact_imports (
    id bigint GENERATED ALWAYS AS IDENTITY,
    company_id bigint NOT NULL,
    file_name text NOT NULL,
    upload_id bigint,
    sheet text NOT NULL,
    tag text,
    status text NOT NULL DEFAULT 'running',
    row_no bigint NOT NULL DEFAULT 0,
    rows bigint NOT NULL DEFAULT 0,
    added bigint NOT NULL DEFAULT 0,
    changed bigint NOT NULL DEFAULT 0,
    invalid bigint NOT NULL DEFAULT 0,
    failure jsonb,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    CONSTRAINT contact_imports_pkey PRIMARY KEY (id),
    CONSTRAINT contact_imports_company_id_fkey FOREIGN KEY (company_id) REFERENCES companies (id) ON DELETE CASCADE,
    CONSTRAINT contact_imports_status_known CHECK (status IN ('running', 'finished', 'failed')),
    CONSTRAINT contact_imports_running_has_upload CHECK ((status = 'running') = (upload_id IS NOT NULL) AND (status = 'running') = (finished_at IS NULL)),
    CONSTRAINT contact_imports_failed_says_why CHECK ((status = 'failed') = (failure IS NOT NULL)),
    CONSTRAINT contact_imports_progress CHECK (added >= 0 AND changed >= 0 AND invalid >= 0 AND added + changed + invalid <= rows AND rows <= row_no)
);
CREATE INDEX contact_imports_company_idx ON contact_imports (company_id, id);
CREATE INDEX contact_imports_running_idx ON contact_imports (id) WHERE status = 'running';
COMMENT ON TABLE contact_imports IS
    'An uploaded list of contacts, and how far its rows are stored. Written by internal/contact: a portion of rows and the numbers that count it are '
    'stored in one transaction, so that any server can go on behind row_no.';
COMMENT ON COLUMN contact_imports.upload_id IS 'the list; no foreign key: the upload is deleted when the import ends; null: it has ended';
COMMENT ON COLUMN contact_imports.sheet IS 'of a workbook; empty: the first that is not hidden';
COMMENT ON COLUMN contact_imports.tag IS 'the tag that gets the contacts; null: none';
COMMENT ON COLUMN contact_imports.row_no IS 'number of the last row that was worked up, as a spreadsheet program shows it';
COMMENT ON COLUMN contact_imports.rows IS 'rows that were worked up, which are not empty';
COMMENT ON COLUMN contact_imports.added IS 'contacts that did not exist';
COMMENT ON COLUMN contact_imports.changed IS 'contacts that existed and were changed';
COMMENT ON COLUMN contact_imports.invalid IS 'rows of which nothing was stored';
COMMENT ON COLUMN contact_imports.failure IS 'why the rest of the list could not be read: a fault.Field as JSON; null: it could';
COMMENT ON COLUMN contact_imports.created_by IS 'the user; no foreign key: the configured user is in no table';

CREATE TABLE contact_import_errors (
    import_id bigint NOT NULL,
    row_no bigint NOT NULL,
    failure jsonb NOT NULL,
    CONSTRAINT contact_import_errors_pkey PRIMARY KEY (import_id, row_no),
    CONSTRAINT contact_import_errors_import_id_fkey FOREIGN KEY (import_id) REFERENCES contact_imports (id) ON DELETE CASCADE
);
COMMENT ON TABLE contact_import_errors IS
    'A row of a list of which nothing was stored; of an import the first 10,000. Written by internal/contact with its portion. It holds no value of the row.';
COMMENT ON COLUMN contact_import_errors.failure IS 'the first thing that is wrong: a fault.Field as JSON';

CREATE TRIGGER audited AFTER INSERT ON contact_imports
FOR EACH ROW EXECUTE FUNCTION audit_change('contact_import', 'id', 'upload_id,sheet,status,row_no,rows,added,changed,invalid,failure,created_by,finished_at');

-- An import is recorded as one change. Its million contacts are not recorded one by one.
DROP TRIGGER audited ON contacts;
CREATE TRIGGER audited AFTER INSERT OR UPDATE OF user_id, name, phone, dingtalk_name, wechat_openid, email, attributes OR DELETE ON contacts
FOR EACH ROW WHEN (coalesce(current_setting('lksms.contact_import', true), '') = '')
EXECUTE FUNCTION audit_change('contact', 'user_id', '', 'name,dingtalk_name,wechat_openid,email,attributes.*');

-- migrate:down
DROP TRIGGER audited ON contacts;
CREATE TRIGGER audited AFTER INSERT OR UPDATE OF user_id, name, phone, dingtalk_name, wechat_openid, email, attributes OR DELETE ON contacts
FOR EACH ROW EXECUTE FUNCTION audit_change('contact', 'user_id', '', 'name,dingtalk_name,wechat_openid,email,attributes.*');
DROP TABLE contact_import_errors;
DROP TABLE contact_imports;
