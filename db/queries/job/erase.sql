-- Statements that erase a person. Each statement skips data that is already erased. Therefore a statement can be repeated, and counts each row once.

-- ErasureJobs returns the task jobs with a phone number in their filter that select tasks of a company or were created by a user of this company.
-- name: ErasureJobs :many
SELECT j.id, (j.filter ->> 'phone_number')::text AS phone_number FROM task_jobs j
WHERE j.filter ? 'phone_number'
    AND (
        j.created_by IN (SELECT u.username FROM users u WHERE u.company_id = @company_id)
        OR j.filter ->> 'company_no' = (SELECT c.company_no FROM companies c WHERE c.id = @company_id)
    )
ORDER BY j.id;

-- ErasureJob removes the phone number from the filters of task jobs.
-- name: ErasureJob :execrows
UPDATE task_jobs j SET filter = j.filter - 'phone_number' WHERE j.id = ANY (@ids::bigint[]);
