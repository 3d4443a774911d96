-- migrate:up
ALTER TABLE channels ADD COLUMN retry_minutes bigint[];
COMMENT ON COLUMN channels.retry_minutes IS 'for senders that are driven: the wait before each further attempt; null: as the server is configured';
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE channels ADD CONSTRAINT channels_retry_minutes_range CHECK (
    cardinality(retry_minutes) <= 20 AND 0 <= ALL (retry_minutes) AND 10080 >= ALL (retry_minutes)
);
INSERT INTO channels (channel, name, retry_minutes)
VALUES ('oa', 'OA', '{1,3,5,10,30,60,180}'), ('dingtalk', '钉钉', '{1,3,5,10,30,60,180}'),
    ('wechat', '微信订阅消息', '{1,3,5,10,30,60,180}'), ('email', '邮件', '{1,3,5,10,30,60,180}')
ON CONFLICT (channel) DO UPDATE SET retry_minutes = excluded.retry_minutes;
INSERT INTO pools (channel_id)
SELECT c.id FROM channels c
WHERE NOT EXISTS (SELECT FROM pools p WHERE p.channel_id = c.id AND p.company_id IS NULL)
ORDER BY c.id;

-- migrate:down
-- The channels stay: tasks may be on them.
ALTER TABLE channels DROP COLUMN retry_minutes;
