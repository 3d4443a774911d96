-- migrate:up
-- A company may have two million contacts. A trigger counts them as they come and go: counting the rows at each insert, as rows_bound does, would read
-- them all. Writers of contacts wait while the rows are counted once.
CREATE TABLE contact_counts (
    company_id bigint NOT NULL,
    contacts bigint NOT NULL,
    CONSTRAINT contact_counts_pkey PRIMARY KEY (company_id),
    CONSTRAINT contact_counts_company_id_fkey FOREIGN KEY (company_id) REFERENCES companies (id) ON DELETE CASCADE,
    CONSTRAINT contact_counts_contacts_range CHECK (contacts >= 0)
) WITH (fillfactor = 50);
COMMENT ON TABLE contact_counts IS
    'The number of contacts of a company; no row: it never had one. Written by triggers of contacts. internal/contact locks the row before it changes '
    'contacts or tags of the company, so that these changes wait for each other.';

-- contacts_count adds what a statement added to contacts, or subtracts what it removed, and refuses more rows of a company than its argument allows.
CREATE FUNCTION contacts_count() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    most CONSTANT bigint := TG_ARGV[0];
BEGIN
    IF TG_OP = 'DELETE' THEN
        UPDATE contact_counts c SET contacts = c.contacts - r.contacts
        FROM (SELECT o.company_id, count(*) AS contacts FROM removed o GROUP BY o.company_id) r
        WHERE c.company_id = r.company_id;
        RETURN NULL;
    END IF;
    INSERT INTO contact_counts AS c (company_id, contacts)
    SELECT a.company_id, count(*) FROM added a GROUP BY a.company_id ORDER BY a.company_id
    ON CONFLICT (company_id) DO UPDATE SET contacts = c.contacts + excluded.contacts;
    IF EXISTS (SELECT FROM contact_counts c WHERE c.contacts > most AND c.company_id IN (SELECT a.company_id FROM added a)) THEN
        RAISE EXCEPTION 'contacts holds as many rows of the company as it may' -- as rows_bound
        USING ERRCODE = 'check_violation', CONSTRAINT = 'rows_bound', TABLE = 'contacts', DETAIL = most::text;
    END IF;
    RETURN NULL;
END
$$;

LOCK TABLE contacts IN SHARE ROW EXCLUSIVE MODE;
DROP TRIGGER contacts_rows_bound ON contacts;
CREATE TRIGGER contacts_counted AFTER INSERT ON contacts
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION contacts_count('2000000');
CREATE TRIGGER contacts_uncounted AFTER DELETE ON contacts
REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION contacts_count();
INSERT INTO contact_counts (company_id, contacts) SELECT c.company_id, count(*) FROM contacts c GROUP BY c.company_id;

-- migrate:down
DROP TRIGGER contacts_uncounted ON contacts;
DROP TRIGGER contacts_counted ON contacts;
CREATE TRIGGER contacts_rows_bound AFTER INSERT ON contacts
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(100000, company_id);
DROP FUNCTION contacts_count;
DROP TABLE contact_counts;
