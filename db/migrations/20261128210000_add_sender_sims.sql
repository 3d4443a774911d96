-- migrate:up
CREATE TABLE sender_sims (
    sender_id bigint NOT NULL,
    slot smallint NOT NULL,
    phone_number text,
    is_on boolean DEFAULT true NOT NULL,
    per_day bigint,
    per_month bigint,
    recipients_per_month bigint,
    created_at timestamptz DEFAULT now() NOT NULL,
    updated_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT sender_sims_pkey PRIMARY KEY (sender_id, slot),
    CONSTRAINT sender_sims_sender_id_fkey FOREIGN KEY (sender_id) REFERENCES senders ON DELETE CASCADE,
    CONSTRAINT sender_sims_slot_range CHECK (slot BETWEEN 1 AND 10),
    CONSTRAINT sender_sims_phone_number_length CHECK (char_length(phone_number) BETWEEN 1 AND 50),
    CONSTRAINT sender_sims_limits_range CHECK (per_day >= 0 AND per_month >= 0 AND recipients_per_month >= 0)
);
COMMENT ON TABLE sender_sims IS 'A SIM of a sender, with its limits. Written by internal/dispatch/sender.';
COMMENT ON COLUMN sender_sims.slot IS 'the slot of the SIM in the phone, from 1';
COMMENT ON COLUMN sender_sims.phone_number IS 'the number of the SIM, as an administrator or the phone gave it; null: unknown';
COMMENT ON COLUMN sender_sims.is_on IS 'false: no message is sent through the SIM';
COMMENT ON COLUMN sender_sims.per_day IS 'segments in a day of the time zone of the sender; null: no limit';
COMMENT ON COLUMN sender_sims.per_month IS 'segments in a month of the time zone of the sender; null: no limit';
COMMENT ON COLUMN sender_sims.recipients_per_month IS 'different recipients in a month of the time zone of the sender; null: no limit';
CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON sender_sims FOR EACH ROW EXECUTE FUNCTION audit_change('sender_sim', 'sender_no,slot');

CREATE TABLE sim_usages (
    sender_id bigint NOT NULL,
    slot smallint NOT NULL,
    day_used bigint NOT NULL,
    month_used bigint NOT NULL,
    recipients_used bigint NOT NULL,
    last_taken_at timestamptz NOT NULL,
    CONSTRAINT sim_usages_pkey PRIMARY KEY (sender_id, slot),
    CONSTRAINT sim_usages_sender_id_fkey FOREIGN KEY (sender_id) REFERENCES senders ON DELETE CASCADE
) WITH (fillfactor = 50);
COMMENT ON TABLE sim_usages IS
    'The usage of a SIM of a sender. Written by internal/dispatch/queue: claims add to it and refunds subtract from it, while they lock the row of the sender in '
    'sender_states. A row remains if its SIM is removed, so that a SIM that is added again has not lost its usage.';
COMMENT ON COLUMN sim_usages.day_used IS 'segments that were used on the day of last_taken_at. On any other day, the used segments are zero';
COMMENT ON COLUMN sim_usages.month_used IS 'like day_used, for the month';
COMMENT ON COLUMN sim_usages.recipients_used IS 'different recipients in the month of last_taken_at. In any other month, the number is zero';
COMMENT ON COLUMN sim_usages.last_taken_at IS 'time of the last claim that leased a task for the SIM';

CREATE TABLE sim_recipients (
    sender_id bigint NOT NULL,
    recipient_hash bytea NOT NULL,
    slot smallint NOT NULL,
    month date NOT NULL,
    messages bigint NOT NULL,
    last_at timestamptz NOT NULL,
    last_messages bigint,
    previous_at timestamptz,
    CONSTRAINT sim_recipients_pkey PRIMARY KEY (sender_id, recipient_hash, slot),
    CONSTRAINT sim_recipients_recipient_hash_length CHECK (octet_length(recipient_hash) = 32)
) WITH (fillfactor = 80);
COMMENT ON TABLE sim_recipients IS
    'A recipient to whom a SIM of a sender sends messages. Written by internal/dispatch/queue, like sim_usages; a sweep deletes the row when it is older than a '
    'month and its conversation has ended. The erasure of a person deletes the rows of the person; sim_usages keeps their number. There is no foreign key, '
    'because each insert would lock the sender.';
COMMENT ON COLUMN sim_recipients.recipient_hash IS 'SHA-256 of the number in E.164';
COMMENT ON COLUMN sim_recipients.month IS 'the first day of the month that messages counts, in the time zone of the sender';
COMMENT ON COLUMN sim_recipients.messages IS 'leases in the month, without leases that were given back; 0: the recipient does not count';
COMMENT ON COLUMN sim_recipients.last_at IS 'time of the last claim whose leases were not all given back; -infinity: none';
COMMENT ON COLUMN sim_recipients.last_messages IS 'leases of this claim that were not given back; null: unknown, because a later claim was given back';
COMMENT ON COLUMN sim_recipients.previous_at IS 'last_at from before this claim: the value if all its leases are given back; null: none';
CREATE INDEX sim_recipients_last_at_idx ON sim_recipients (last_at);
CREATE INDEX sim_recipients_recipient_hash_idx ON sim_recipients (recipient_hash);

CREATE TABLE lock_delete_expired_sim_recipients ();
COMMENT ON TABLE lock_delete_expired_sim_recipients IS 'Has no rows. The server that runs the sweep delete-expired-sim-recipients locks this table.';

-- migrate:down
DROP TABLE lock_delete_expired_sim_recipients;
DROP TABLE sim_recipients;
DROP TABLE sim_usages;
DROP TABLE sender_sims;
