-- migrate:up
-- Is another cause of a notification staged? The table is emptied each second, so the index is built in a moment.
SET LOCAL lock_timeout = '5s';
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX feed_staged_notification_idx ON feed_staged ((data ->> 'notification_id')) WHERE type = 'notification.finished';

-- migrate:down
SET LOCAL lock_timeout = '5s';
DROP INDEX feed_staged_notification_idx;
