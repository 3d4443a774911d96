-- migrate:up
ALTER TABLE queue ADD COLUMN taken_back_by text, ADD COLUMN taken_back_result text;
COMMENT ON COLUMN queue.taken_back_by IS
    'the user who cancelled the message while a sender held it. The task then counts as expired, and is cancelled if its lease ends without an outcome. null: not cancelled';
COMMENT ON COLUMN queue.taken_back_result IS
    'the result of the task if it is cancelled at the end of this lease; null: the result of its last attempt';

-- migrate:down
ALTER TABLE queue DROP COLUMN taken_back_by, DROP COLUMN taken_back_result;
