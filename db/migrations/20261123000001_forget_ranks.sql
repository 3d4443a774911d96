-- migrate:up
-- Ranks of pools that were deleted: nothing reads them. Locks only these rows.
DELETE FROM fair_ranks f WHERE NOT EXISTS (SELECT FROM pools p WHERE p.id = f.pool_id);
COMMENT ON TABLE fair_ranks IS
    'The last range of ranks that a company was given in a pool and priority (start-time fair queueing: a task uses 1 / weight of its '
    'company). Written by internal/queue, and deleted with its pool by internal/directory. pool_id has no foreign key: each submission '
    'would lock the pool.';

-- migrate:down
COMMENT ON TABLE fair_ranks IS
    'The last range of ranks that a company was given in a pool and priority (start-time fair queueing: a task uses 1 / weight of its '
    'company). Written by internal/queue. pool_id has no foreign key: a deleted pool leaves its rows behind, and nothing reads them.';
