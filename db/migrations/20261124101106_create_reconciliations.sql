-- migrate:up
CREATE TABLE reconciliations (
    id bigint GENERATED ALWAYS AS IDENTITY,
    sender_no text NOT NULL,
    day date NOT NULL,
    from_at timestamptz NOT NULL,
    to_at timestamptz NOT NULL,
    unit text,
    ours bigint NOT NULL DEFAULT 0,
    theirs bigint NOT NULL DEFAULT 0,
    tests bigint NOT NULL DEFAULT 0,
    file_name text,
    upload_id bigint,
    sheet text NOT NULL DEFAULT '',
    number_column text NOT NULL DEFAULT '',
    status_column text NOT NULL DEFAULT '',
    segments_column text NOT NULL DEFAULT '',
    delivered_values text[] NOT NULL DEFAULT '{}',
    pending_values text[] NOT NULL DEFAULT '{}',
    status text NOT NULL,
    phase text,
    row_no bigint NOT NULL DEFAULT 0,
    after_no text COLLATE "C" NOT NULL DEFAULT '',
    after_at timestamptz,
    after_id bigint NOT NULL DEFAULT 0,
    rows bigint NOT NULL DEFAULT 0,
    matched bigint NOT NULL DEFAULT 0,
    missing_here bigint NOT NULL DEFAULT 0,
    missing_there bigint NOT NULL DEFAULT 0,
    status_differs bigint NOT NULL DEFAULT 0,
    segments_differ bigint NOT NULL DEFAULT 0,
    repeated bigint NOT NULL DEFAULT 0,
    unreadable bigint NOT NULL DEFAULT 0,
    near_midnight bigint NOT NULL DEFAULT 0,
    differences bigint NOT NULL GENERATED ALWAYS AS (
        CASE WHEN unit IS NULL THEN missing_here + missing_there + status_differs + segments_differ + repeated + unreadable
            ELSE abs(ours - theirs) END
    ) STORED,
    failure jsonb,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    CONSTRAINT reconciliations_pkey PRIMARY KEY (id),
    CONSTRAINT reconciliations_unit_known CHECK (unit IN ('messages', 'segments') AND file_name IS NULL OR unit IS NULL AND file_name IS NOT NULL),
    CONSTRAINT reconciliations_status_known CHECK (status IN ('running', 'finished', 'failed')),
    CONSTRAINT reconciliations_phase_known CHECK (
        (status = 'running') = (phase IS NOT NULL) AND phase IN ('read', 'match', 'search', 'clear')
    ),
    CONSTRAINT reconciliations_reading_has_upload CHECK (coalesce(phase = 'read', false) = (upload_id IS NOT NULL)),
    CONSTRAINT reconciliations_failed_says_why CHECK (status <> 'failed' OR failure IS NOT NULL),
    CONSTRAINT reconciliations_ended_has_time CHECK ((status = 'running') = (finished_at IS NULL)),
    CONSTRAINT reconciliations_day_bounds CHECK (to_at > from_at)
);
CREATE INDEX reconciliations_running_idx ON reconciliations (id) WHERE status = 'running';
CREATE INDEX reconciliations_day_idx ON reconciliations (sender_no, day, id) WHERE status = 'finished';
CREATE INDEX reconciliations_finished_at_idx ON reconciliations (finished_at);
COMMENT ON TABLE reconciliations IS
    'What a provider says it accepted of a sender on one day, compared with what LKSMS has. Written by internal/reconcile: a total in one statement, the '
    'rows of a file in portions, each in one transaction with the place behind it, so that any server can go on there.';
COMMENT ON COLUMN reconciliations.sender_no IS 'no foreign key: the row outlives the sender';
COMMENT ON COLUMN reconciliations.from_at IS 'the beginning of the day, by the setting monitoring.time_zone when it was created';
COMMENT ON COLUMN reconciliations.unit IS 'of ours and theirs, if the provider gave a total; null: it gave a file, of messages';
COMMENT ON COLUMN reconciliations.ours IS 'of a total daily_totals, tests included; of a file the messages with a number that it has, or should have';
COMMENT ON COLUMN reconciliations.tests IS 'of ours, those of tests; 0 for a file';
COMMENT ON COLUMN reconciliations.theirs IS 'of a file its different numbers';
COMMENT ON COLUMN reconciliations.upload_id IS 'the file; no foreign key: it is deleted when it was read; null: it was';
COMMENT ON COLUMN reconciliations.sheet IS 'of a workbook; empty: the first that is not hidden';
COMMENT ON COLUMN reconciliations.number_column IS 'the column with the provider''s numbers';
COMMENT ON COLUMN reconciliations.status_column IS 'empty: states are not compared';
COMMENT ON COLUMN reconciliations.segments_column IS 'empty: segments are not compared';
COMMENT ON COLUMN reconciliations.delivered_values IS 'values of status_column that mean delivered, in lower case';
COMMENT ON COLUMN reconciliations.pending_values IS 'values of status_column that are not final, in lower case; all others mean undelivered';
COMMENT ON COLUMN reconciliations.phase IS
    'read: the file goes to reconciliation_rows; match: the attempts of these rows are looked for; search: attempts of the day without a row are; '
    'clear: the rows are deleted; null: it has ended';
COMMENT ON COLUMN reconciliations.row_no IS 'read: the last row of the file that is stored';
COMMENT ON COLUMN reconciliations.after_no IS 'match: the last number that was looked for';
COMMENT ON COLUMN reconciliations.after_at IS 'search: with after_id the last attempt that was looked at; null: none';
COMMENT ON COLUMN reconciliations.rows IS 'rows of the file that were read, without empty ones';
COMMENT ON COLUMN reconciliations.near_midnight IS 'attempts within minutes of the day''s ends without a row: no difference, a neighbouring statement may have them';
COMMENT ON COLUMN reconciliations.differences IS 'by how much ours and theirs differ, or of a file how often; 0: the day matches';
COMMENT ON COLUMN reconciliations.failure IS 'why the file could not be read to its end: a fault.Field as JSON';
COMMENT ON COLUMN reconciliations.created_by IS 'the user; no foreign key: the configured user is in no table';

CREATE TABLE reconciliation_rows (
    reconciliation_id bigint NOT NULL,
    provider_no text COLLATE "C" NOT NULL,
    row_no bigint NOT NULL,
    copies bigint NOT NULL,
    status text,
    segments bigint,
    CONSTRAINT reconciliation_rows_pkey PRIMARY KEY (reconciliation_id, provider_no),
    CONSTRAINT reconciliation_rows_reconciliation_id_fkey FOREIGN KEY (reconciliation_id) REFERENCES reconciliations (id) ON DELETE CASCADE
);
COMMENT ON TABLE reconciliation_rows IS 'A message of a provider''s file that is being compared. Written by internal/reconcile, which deletes it when the file is compared.';
COMMENT ON COLUMN reconciliation_rows.row_no IS 'the first row that has the number, as a spreadsheet program shows it';
COMMENT ON COLUMN reconciliation_rows.copies IS 'how many rows have the number';
COMMENT ON COLUMN reconciliation_rows.status IS 'as in all of these rows; null: not compared, or they differ';
COMMENT ON COLUMN reconciliation_rows.segments IS 'sum of these rows; null: not compared';

CREATE TABLE reconciliation_differences (
    reconciliation_id bigint NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    kind text NOT NULL,
    provider_no text,
    row_no bigint,
    task_id text COLLATE "C",
    accepted_at timestamptz,
    ours text,
    theirs text,
    CONSTRAINT reconciliation_differences_pkey PRIMARY KEY (reconciliation_id, id),
    CONSTRAINT reconciliation_differences_reconciliation_id_fkey FOREIGN KEY (reconciliation_id) REFERENCES reconciliations (id) ON DELETE CASCADE,
    CONSTRAINT reconciliation_differences_kind_known CHECK (kind IN (
        'missing_here', 'missing_there', 'status_differs', 'segments_differ', 'repeated', 'unreadable', 'near_midnight'
    ))
);
CREATE INDEX reconciliation_differences_kind_idx ON reconciliation_differences (reconciliation_id, kind, id);
COMMENT ON TABLE reconciliation_differences IS
    'A message about which a provider''s file and LKSMS differ; of each kind and reconciliation the first 10,000. Written by internal/reconcile with its portion.';
COMMENT ON COLUMN reconciliation_differences.provider_no IS 'null: the row of the file has none that can be read';
COMMENT ON COLUMN reconciliation_differences.row_no IS 'of the file, as a spreadsheet program shows it; null: the file has no such row';
COMMENT ON COLUMN reconciliation_differences.task_id IS 'null: no attempt has the number. No foreign key: tasks leave with their partitions';
COMMENT ON COLUMN reconciliation_differences.accepted_at IS 'when the attempt was reported; of missing_here, on another day';
COMMENT ON COLUMN reconciliation_differences.ours IS 'the state, the segments or the number of messages that LKSMS has, by kind; null: none';
COMMENT ON COLUMN reconciliation_differences.theirs IS 'the same of the file; of unreadable why, a fault.Rule';

CREATE TRIGGER audited AFTER INSERT ON reconciliations
FOR EACH ROW EXECUTE FUNCTION audit_change(
    'reconciliation', 'id',
    'from_at,to_at,upload_id,sheet,number_column,status_column,segments_column,delivered_values,pending_values,status,phase,row_no,after_no,after_at,'
    'after_id,rows,matched,missing_here,missing_there,status_differs,segments_differ,repeated,unreadable,near_midnight,failure,created_by,finished_at'
);

-- migrate:down
DROP TABLE reconciliation_differences;
DROP TABLE reconciliation_rows;
DROP TABLE reconciliations;
