-- migrate:up
CREATE TABLE notification_templates (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    biz_type smallint NOT NULL,
    channel_id bigint NOT NULL REFERENCES channels (id),
    title text NOT NULL,
    content text NOT NULL,
    external_id text NOT NULL DEFAULT '',
    is_enabled boolean NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT notification_templates_biz_type_channel_id_key UNIQUE (biz_type, channel_id),
    CONSTRAINT notification_templates_lengths CHECK (
        char_length(title) BETWEEN 1 AND 200 AND char_length(content) BETWEEN 1 AND 20000 AND char_length(external_id) <= 64
    )
);
INSERT INTO notification_templates (biz_type, channel_id, title, content, external_id)
SELECT t.biz_type, c.id, t.title, t.content, CASE c.channel WHEN 'dingtalk' THEN t.external_id ELSE '' END
FROM (VALUES
    (0, '【${taskName}】已发起', '【星地协同平台】${creatorName} 于 ${createTime} 发起了【${taskName}】，请及时关注代办任务', 'SE1001'),
    (1, '【${taskName}】进入下一节点', '【星地协同平台】您好，您有一个${taskName}任务需要马上处理${nextNodeName}，剩余${remainMin}分钟即将超时，请登录系统进行处理，感谢支持！', 'SE1002'),
    (2, '【${taskName}】进站提醒', '【星地协同平台】您好，任务${taskName}执行卫星将于${remainMin}分钟后进站，请提前开展工作准备，感谢支持！', 'SE1003'),
    (3, '【${taskName}】已完成', '【星地协同平台】您好，任务${taskName}执行完成，如需查看详情请登录系统。', 'SE1004'),
    (4, '【${taskName}】异常结束', '【星地协同平台】您好，任务${taskName}执行异常结束，如需查看详情请登录系统。', 'SE1005'),
    (5, '【${taskName}】节点超时', '【星地协同平台】您好，您参与的任务${taskName}节点${nodeName}已经超时${overtime}分钟，请尽快登录系统进行处理，感谢支持！', 'SE1006')
) AS t (biz_type, title, content, external_id)
CROSS JOIN channels c
WHERE c.channel IN ('oa', 'dingtalk', 'email')
ORDER BY c.id, t.biz_type;

-- migrate:down
DROP TABLE notification_templates;
