-- migrate:up
-- Locks default_contents while its unique index is built; what is there belongs to the default company.
ALTER TABLE default_contents ADD COLUMN company_id bigint NOT NULL DEFAULT 1;
COMMENT ON COLUMN default_contents.company_id IS 'whose users send it; unique with the recipient';
-- squawk-ignore constraint-missing-not-valid, adding-foreign-key-constraint
ALTER TABLE default_contents ADD CONSTRAINT default_contents_company_id_fkey FOREIGN KEY (company_id) REFERENCES companies (id);
-- squawk-ignore disallowed-unique-constraint, constraint-missing-not-valid
ALTER TABLE default_contents ADD CONSTRAINT default_contents_company_id_recipient_key UNIQUE (company_id, recipient);
ALTER TABLE default_contents DROP CONSTRAINT default_contents_recipient_key;

-- migrate:down
-- A recipient has one again: that of the smallest id.
DELETE FROM default_contents d USING default_contents o WHERE o.recipient = d.recipient AND o.id < d.id;
ALTER TABLE default_contents ADD CONSTRAINT default_contents_recipient_key UNIQUE (recipient);
ALTER TABLE default_contents DROP CONSTRAINT default_contents_company_id_recipient_key;
ALTER TABLE default_contents DROP COLUMN company_id;
