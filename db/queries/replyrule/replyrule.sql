-- Statements on rules about received messages, and on the messages to which they are still to be applied.

-- name: ReplyRuleCreate :one
INSERT INTO reply_rules (company_id, match, words, action, content, template_no, sign, tag, phone_numbers, webhook_id, sort)
VALUES (
    @company_id, @match, @words::text[], @action, sqlc.narg(content), sqlc.narg(template_no), sqlc.narg(sign), sqlc.narg(tag),
    sqlc.narg(phone_numbers)::text[], sqlc.narg(webhook_id), @sort
)
RETURNING id;

-- ReplyRuleList returns rules after a position (sort, id), in the order in which they are tried. company_id null: rules of all companies. id null: all rules.
-- name: ReplyRuleList :many
SELECT r.*, c.company_no
FROM reply_rules r
JOIN companies c ON c.id = r.company_id
WHERE (sqlc.narg(company_id)::bigint IS NULL OR r.company_id = sqlc.narg(company_id)::bigint)
    AND (sqlc.narg(id)::bigint IS NULL OR r.id = sqlc.narg(id)::bigint)
    AND (r.sort, r.id) > (@after_sort::bigint, @after_id::bigint)
ORDER BY r.sort, r.id
LIMIT @page_limit::integer;

-- ReplyRuleUpdate changes a rule if its version is still `version`.
-- name: ReplyRuleUpdate :execrows
UPDATE reply_rules r
SET match = @match, words = @words::text[], action = @action, content = sqlc.narg(content), template_no = sqlc.narg(template_no), sign = sqlc.narg(sign),
    tag = sqlc.narg(tag), phone_numbers = sqlc.narg(phone_numbers)::text[], webhook_id = sqlc.narg(webhook_id), sort = @sort, version = r.version + 1, updated_at = now()
WHERE r.id = @id AND r.version = @version;

-- ReplyRuleDelete deletes a rule. company_id null: of any company.
-- name: ReplyRuleDelete :execrows
DELETE FROM reply_rules r WHERE r.id = @id AND (sqlc.narg(company_id)::bigint IS NULL OR r.company_id = sqlc.narg(company_id)::bigint);

-- ReplyActionsPending reports whether rules are still to be applied to a message of `ids`.
-- name: ReplyActionsPending :one
SELECT EXISTS (SELECT FROM reply_actions a WHERE a.received_id = ANY (@ids::bigint[]) AND a.outcome IS NULL);

-- ReplyActionCompanies returns the companies with messages to which rules are still to be applied. It moves through reply_actions_waiting_idx from each company to
-- the next, so its cost does not depend on the number of messages.
-- name: ReplyActionCompanies :many
WITH RECURSIVE waiting AS (
    (SELECT a.company_id FROM reply_actions a WHERE a.outcome IS NULL ORDER BY a.company_id LIMIT 1)
    UNION ALL
    SELECT n.company_id
    FROM waiting w
    CROSS JOIN LATERAL (
        SELECT a.company_id FROM reply_actions a WHERE a.outcome IS NULL AND a.company_id > w.company_id ORDER BY a.company_id LIMIT 1
    ) n
)
SELECT w.company_id::bigint AS company_id FROM waiting w ORDER BY w.company_id;

-- ReplyActionsDue returns up to max_rows messages of a company with ids greater than after_id to which rules are to be applied now, oldest first. is_due needs
-- the longest possible wait.
-- name: ReplyActionsDue :many
SELECT a.received_id FROM reply_actions a
WHERE a.outcome IS NULL AND (a.company_id, a.received_id) > (@company_id::bigint, @after_id::bigint) AND a.company_id <= @company_id::bigint
    AND CASE WHEN a.due_at = 'infinity' THEN NOT EXISTS (SELECT FROM companies c WHERE c.id = a.company_id AND c.status = 'off')
        ELSE is_due(a.due_at, interval '1 hour') END
ORDER BY a.company_id, a.received_id -- this order forces reply_actions_waiting_idx, also while statistics are stale
LIMIT @max_rows::integer;

-- ReplyActionHold locks a message to which rules are to be applied until the end of the transaction. It returns no row if another server has locked the
-- message, or has already applied the rules to it.
-- name: ReplyActionHold :one
SELECT a.received_id, (a.created_at < now() - interval '1 day')::boolean AS is_old FROM reply_actions a
WHERE a.received_id = @received_id AND a.outcome IS NULL
FOR UPDATE SKIP LOCKED;

-- ReplyActionDone records what was done with a message. rule_id null: the message opted out without a rule.
-- name: ReplyActionDone :exec
UPDATE reply_actions a
SET rule_id = sqlc.narg(rule_id)::bigint, action = @action::text, outcome = @outcome::text, refused = sqlc.narg(refused)::text[], done_at = now()
WHERE a.received_id = @received_id;

-- ReplyActionDelete deletes the reply_actions row of a message that no rule matched, or that was deleted or erased.
-- name: ReplyActionDelete :exec
DELETE FROM reply_actions a WHERE a.received_id = @received_id;

-- ReplyActionPostpone plans a further attempt to apply the rules to a message. The first wait is 2 seconds, and doubles with each failed attempt, up to an
-- hour.
-- name: ReplyActionPostpone :exec
UPDATE reply_actions a
SET tries = a.tries + 1, due_at = now() + least(interval '2 seconds' * power(2, least(a.tries, 12)), interval '1 hour')
WHERE a.received_id = @received_id AND a.outcome IS NULL;

-- ReplyActionAwaitCompany delays the next attempt to apply the rules to a message until its company is on.
-- name: ReplyActionAwaitCompany :exec
UPDATE reply_actions a SET due_at = 'infinity' WHERE a.received_id = @received_id AND a.outcome IS NULL;

-- ReplyActionsOfNumber returns how many messages from the number of a message caused one of the given actions, and arrived within an hour of the message. The
-- rules can be applied to later messages first, so messages within an hour after this message count, too.
-- name: ReplyActionsOfNumber :one
SELECT count(*)
FROM reply_actions m
JOIN reply_actions a ON a.company_id = m.company_id AND a.phone_number = m.phone_number
WHERE m.received_id = @received_id AND a.outcome IN ('done', 'partly') AND a.action = ANY (@actions::text[])
    AND a.created_at > m.created_at - interval '1 hour' AND a.created_at < m.created_at + interval '1 hour';

-- ReplyNumberIsOwn reports whether a number in E.164 is the number of a SIM of a sender, or of a sender that received a message. Numbers of senders are stored as
-- they were received, so they can lack the country code.
-- name: ReplyNumberIsOwn :one
SELECT EXISTS (
    SELECT FROM received_messages r
    WHERE right(number_digits(r.own_number), 8) = right(number_digits(@phone_number::text), 8) AND r.own_number IS NOT NULL
        AND number_digits(@phone_number::text) LIKE '%' || ltrim(number_digits(r.own_number), '0')
    UNION ALL
    SELECT FROM sender_sims m
    WHERE right(number_digits(m.phone_number), 8) = right(number_digits(@phone_number::text), 8)
        AND number_digits(@phone_number::text) LIKE '%' || ltrim(number_digits(m.phone_number), '0')
);
