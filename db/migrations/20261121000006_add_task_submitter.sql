-- migrate:up
ALTER TABLE tasks ADD COLUMN submitted_by text;
COMMENT ON COLUMN tasks.submitted_by IS 'the user that submitted it, who may look at it with the role submit';

-- migrate:down
ALTER TABLE tasks DROP COLUMN submitted_by;
