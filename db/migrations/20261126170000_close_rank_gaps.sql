-- migrate:up
-- The lock of a sweep. The migration locks no existing table.
CREATE TABLE lock_close_rank_gaps ();
COMMENT ON TABLE lock_close_rank_gaps IS
    'no rows: a server locks the table while it runs the sweep close-rank-gaps, so that it runs on one server at a time';

-- migrate:down
DROP TABLE lock_close_rank_gaps;
