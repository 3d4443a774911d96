-- Statements that erase a person. Each statement skips data that is already erased. Therefore a statement can be repeated, and counts each row once.

-- ErasureAudit erases three kinds of audit entries in a company:
--   contacts of user_ids                       the values are removed, and the user id is replaced by a pseudonym
--   default contents and blocks of recipients  the values are removed. The audit contains only masked recipients, so the statement compares masked ones
--   task jobs of job_ids                       the values are removed
-- name: ErasureAudit :execrows
UPDATE audit a
SET entity_key = CASE a.entity WHEN 'contact' THEN @pseudonym::text || array_position(@user_ids::text[], a.entity_key) ELSE a.entity_key END,
    before = CASE WHEN a.before IS NOT NULL THEN '{}'::jsonb END, after = CASE WHEN a.after IS NOT NULL THEN '{}'::jsonb END
FROM companies c
WHERE c.id = @company_id
    AND (
        a.entity = 'contact' AND a.company_no = c.company_no AND a.entity_key = ANY (@user_ids::text[])
        OR a.entity IN ('default_content', 'block') AND (a.entity, a.entity_key) IN (
            SELECT o.entity, o.entity_key FROM audit o
            WHERE o.entity IN ('default_content', 'block') AND o.company_no = c.company_no
                AND EXISTS (
                    SELECT FROM unnest(@recipients::text[]) AS r (address)
                    CROSS JOIN LATERAL (SELECT audit_shown('recipient', to_jsonb(r.address), false) AS shown) m
                    WHERE m.shown IN (o.before -> 'recipient', o.after -> 'recipient')
                )
        )
        OR a.entity = 'task_job' AND a.entity_key = ANY (@job_ids::text[])
    )
    AND (a.entity = 'contact' OR coalesce(a.before, '{}') <> '{}' OR coalesce(a.after, '{}') <> '{}');
