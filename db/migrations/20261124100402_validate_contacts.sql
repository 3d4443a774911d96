-- migrate:up
-- Each row is read once, while servers go on.
ALTER TABLE contacts VALIDATE CONSTRAINT contacts_name_length;
ALTER TABLE contacts VALIDATE CONSTRAINT contacts_attributes_are_texts;

-- migrate:down
-- What holds for all rows holds for the new ones.
SELECT 1;
