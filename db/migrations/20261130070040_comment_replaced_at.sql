-- Locks notifications (SHARE UPDATE EXCLUSIVE) for an instant: no statement waits.
-- migrate:up
COMMENT ON COLUMN notifications.replaced_at IS
    'the time at which its dedup_key was released for a later notification. The reason is that its task or node began again, its node got another deadline, its orbit was planned for another time, or it reached nobody and was announced again. null: not released';

-- migrate:down
COMMENT ON COLUMN notifications.replaced_at IS
    'the time at which its dedup_key was released for a later notification. The reason is that its node started again, its orbit was planned for another time, or it reached nobody and was announced again. null: not released';
