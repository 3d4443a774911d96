-- migrate:up
-- As lengthen_contents. The table is small: its rows are checked at once, and its writers wait for that.
SET LOCAL lock_timeout = '5s';
ALTER TABLE default_contents DROP CONSTRAINT default_contents_content_length;
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE default_contents ADD CONSTRAINT default_contents_content_length CHECK (char_length(content) BETWEEN 1 AND 1024);

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE default_contents DROP CONSTRAINT default_contents_content_length;
ALTER TABLE default_contents ADD CONSTRAINT default_contents_content_length CHECK (char_length(content) BETWEEN 1 AND 200) NOT VALID;
