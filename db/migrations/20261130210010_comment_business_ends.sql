-- Locks business_ends (SHARE UPDATE EXCLUSIVE) for an instant: no statement waits.
-- migrate:up
COMMENT ON TABLE business_ends IS
    'A business task or one of its nodes that has ended. Written by internal/audience/notification from business events. The row of a node is deleted when the node starts again. The row of a task is kept, because late starts are compared with it.';

-- migrate:down
COMMENT ON TABLE business_ends IS
    'A business task or one of its nodes that has ended. Written by internal/audience/notification from business events, and deleted when the task or node starts again.';
