-- Statements on the SIMs of senders: their limits and their usage. Claims choose the SIM of each message, see dispatch/sims.sql.

-- SimList returns the SIMs of a sender with their usage, in the order of their slots.
--   segments_left, recipients_left  what the limits still allow, at least 0; null: no limit
-- name: SimList :many
SELECT s.slot::smallint AS slot, coalesce(s.phone_number, '')::text AS phone_number, s.is_on::boolean AS is_on, s.per_day::int8 AS per_day,
    s.per_month::int8 AS per_month, s.recipients_per_month::int8 AS recipients_per_month, s.day_used::bigint AS day_used, s.month_used::bigint AS month_used,
    s.recipients_used::bigint AS recipients_used,
    CASE WHEN s.segments_left < 0 THEN 0 ELSE s.segments_left END::int8 AS segments_left, CASE WHEN s.recipients_left < 0 THEN 0 ELSE s.recipients_left END::int8 AS recipients_left
FROM sim_standings((SELECT o.id FROM senders o WHERE o.sender_no = @sender_no), now()) s
ORDER BY s.slot;

-- SimsPut replaces the SIMs of a sender. Entry n of each array belongs to the same SIM; an empty phone_number means unknown. It returns no row if the sender does
-- not exist.
-- name: SimsPut :one
WITH me AS MATERIALIZED (
    SELECT s.id FROM senders s WHERE s.sender_no = @sender_no FOR UPDATE
),
removed AS (
    DELETE FROM sender_sims m USING me WHERE m.sender_id = me.id AND m.slot <> ALL (@slots::smallint[])
),
put AS (
    INSERT INTO sender_sims AS m (sender_id, slot, phone_number, is_on, per_day, per_month, recipients_per_month)
    SELECT me.id, i.slot, nullif(i.phone_number, ''), i.is_on, i.per_day, i.per_month, i.recipients_per_month
    FROM me
    CROSS JOIN (
        SELECT unnest(@slots::smallint[]) AS slot, unnest(@phone_numbers::text[]) AS phone_number, unnest(@are_on::boolean[]) AS is_on,
            unnest(@per_days::int8[]) AS per_day, unnest(@per_months::int8[]) AS per_month, unnest(@recipients_per_months::int8[]) AS recipients_per_month
    ) i
    ON CONFLICT (sender_id, slot) DO UPDATE
    SET phone_number = excluded.phone_number, is_on = excluded.is_on, per_day = excluded.per_day, per_month = excluded.per_month,
        recipients_per_month = excluded.recipients_per_month, updated_at = now()
    WHERE (m.phone_number, m.is_on, m.per_day, m.per_month, m.recipients_per_month)
        IS DISTINCT FROM (excluded.phone_number, excluded.is_on, excluded.per_day, excluded.per_month, excluded.recipients_per_month)
),
marked AS (
    UPDATE senders s SET has_sims = cardinality(@slots::smallint[]) > 0
    FROM me
    WHERE s.id = me.id AND s.has_sims <> (cardinality(@slots::smallint[]) > 0)
)
SELECT me.id FROM me;

-- SimsAdd adds the SIMs that a phone has to its sender, without limits. In an existing SIM, only a missing phone_number is filled in. An empty phone_number means
-- unknown.
-- name: SimsAdd :exec
WITH me AS MATERIALIZED (
    SELECT s.id FROM senders s WHERE s.sender_no = @sender_no AND s.kind = 'app' FOR UPDATE
),
added AS (
    INSERT INTO sender_sims AS m (sender_id, slot, phone_number)
    SELECT me.id, i.slot, nullif(i.phone_number, '')
    FROM me
    CROSS JOIN (SELECT unnest(@slots::smallint[]) AS slot, unnest(@phone_numbers::text[]) AS phone_number) i
    ON CONFLICT (sender_id, slot) DO UPDATE
    SET phone_number = excluded.phone_number, updated_at = now()
    WHERE m.phone_number IS NULL AND excluded.phone_number IS NOT NULL
)
UPDATE senders s SET has_sims = true FROM me WHERE s.id = me.id AND NOT s.has_sims;
