-- migrate:up
ALTER TABLE blocks VALIDATE CONSTRAINT blocks_asked_by_message;

-- migrate:down
SELECT 1; -- the previous migration drops the constraint
