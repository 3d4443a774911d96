-- Statements that erase a person. Each statement skips data that is already erased. Therefore a statement can be repeated, and counts each row once.

-- ErasureChecking counts the batches of a company that are being checked now and were created at `before` or earlier.
-- name: ErasureChecking :one
SELECT count(*) FROM batches b WHERE b.company_id = @company_id AND is_in_check(b) AND b.created_at <= @before;

-- ErasureBatches returns the batches of a company. only_open: only batches whose rows can still be sent.
-- name: ErasureBatches :many
SELECT b.id FROM batches b
WHERE b.company_id = @company_id AND (NOT @only_open::boolean OR b.status IN ('ready', 'running', 'paused'))
ORDER BY b.id;

-- ErasureUnfed rejects the unsent rows of a batch to the given recipients, and returns their number. It also updates the counts of the batch.
-- name: ErasureUnfed :one
WITH held AS (
    SELECT b.id, b.fed_row FROM batches b WHERE b.id = @batch_id AND b.status IN ('ready', 'running', 'paused') FOR UPDATE
),
refused AS (
    UPDATE batch_rows r SET code = 7 -- rejected at its submission
    FROM held h
    WHERE r.batch_id = h.id AND r.row_no > h.fed_row AND r.code IS NULL
        AND (r.recipient = ANY (@recipients::text[]) OR fold_case(r.recipient) = ANY (@addresses::text[]))
    RETURNING r.segments
),
counted AS (
    UPDATE batches b
    SET valid = b.valid - s.rows, invalid = b.invalid + s.rows, segments = b.segments - s.segments
    FROM (SELECT count(*) AS rows, coalesce(sum(f.segments), 0) AS segments FROM refused f) s
    WHERE b.id = @batch_id AND s.rows > 0
)
SELECT count(*) AS rows FROM refused;

-- ErasureRowCandidates returns rows of a batch whose recipient ends with one of `digits`, or is one of `addresses` in lower case. The recipient of an invalid
-- row is stored as it was written, so the caller checks each returned row.
-- name: ErasureRowCandidates :many
SELECT r.row_no, r.recipient FROM batch_rows r
WHERE r.batch_id = @batch_id AND r.row_no > @after_row
    AND (right(number_digits(r.recipient), 8) = ANY (@digits::text[]) OR fold_case(r.recipient) = ANY (@addresses::text[]))
ORDER BY r.row_no
LIMIT @portion::integer;

-- ErasureRows removes the recipient and the texts from rows of a batch.
-- name: ErasureRows :execrows
UPDATE batch_rows r SET recipient = '', content = '', contact_values = NULL WHERE r.batch_id = @batch_id AND r.row_no = ANY (@row_nos::bigint[]);
