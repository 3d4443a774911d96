-- migrate:up
-- Stored events get the name of new ones, so that one filter finds both. Locks these few rows.
UPDATE events SET event = 'sender.paused' WHERE event = 'sender.resting';

-- migrate:down
UPDATE events SET event = 'sender.resting' WHERE event = 'sender.paused';
