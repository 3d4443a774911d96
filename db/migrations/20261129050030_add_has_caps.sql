-- migrate:up
CREATE FUNCTION has_caps(company_id bigint, message_type smallint) RETURNS boolean LANGUAGE sql STABLE
RETURN EXISTS (
    SELECT FROM settings s WHERE s.category = 'recipient' AND s.name = 'caps_total_per_day' AND s.value > '0'
    UNION ALL
    SELECT
    FROM (SELECT (ARRAY['verification', 'notification', 'marketing'])[has_caps.message_type + 1] AS name) y
    CROSS JOIN (VALUES ('per_minute'), ('per_hour'), ('per_day')) w (name)
    LEFT JOIN companies c ON c.id = has_caps.company_id
    LEFT JOIN settings s ON s.category = 'recipient' AND s.name = 'caps_' || y.name || '_' || w.name
    WHERE coalesce(nullif(c.recipient #> ARRAY['caps', y.name, w.name], 'null'), s.value) > '0'
);
COMMENT ON FUNCTION has_caps(bigint, smallint) IS
    'Returns whether any cap limits the messages of a company and type to one person. Package caps has the same rule. Statements that give many tasks another due '
    'time call the function once for each company and type.';

CREATE FUNCTION is_counted_by_caps(task queue) RETURNS boolean LANGUAGE sql IMMUTABLE
RETURN task.retry_count = 0 AND task.troubles = 0 AND task.exemption IS NULL AND starts_with(task.recipient, '+');
COMMENT ON FUNCTION is_counted_by_caps(queue) IS
    'Returns whether a waiting task is counted for its due time if has_caps: a task without an attempt, to a phone number, and without an exemption.';

-- migrate:down
DROP FUNCTION is_counted_by_caps(queue);
DROP FUNCTION has_caps(bigint, smallint);
