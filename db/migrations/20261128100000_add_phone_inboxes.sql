-- migrate:up
CREATE TABLE phone_inboxes (
    sender_id bigint NOT NULL,
    device_no text NOT NULL,
    signing_key text NOT NULL,
    hooked_at timestamptz,
    export_since timestamptz,
    export_until timestamptz,
    CONSTRAINT phone_inboxes_pkey PRIMARY KEY (sender_id),
    CONSTRAINT phone_inboxes_device_no_key UNIQUE (device_no),
    CONSTRAINT phone_inboxes_sender_id_fkey FOREIGN KEY (sender_id) REFERENCES phones (sender_id) ON DELETE CASCADE,
    CONSTRAINT phone_inboxes_export_complete CHECK ((export_since IS NULL) = (export_until IS NULL))
);

COMMENT ON TABLE phone_inboxes IS 'A phone with the app of SMSGate that posts received messages to this server. Written by internal/transport/smsgate/mobile when the phone reads its settings. The row of a phone that was replaced is overwritten by the next phone.';
COMMENT ON COLUMN phone_inboxes.device_no IS 'the phone that has the key, see phones.device_no';
COMMENT ON COLUMN phone_inboxes.signing_key IS 'the encrypted key with which the phone signs its posts';
COMMENT ON COLUMN phone_inboxes.hooked_at IS 'the last time at which the phone read the address of its posts; null: never';
COMMENT ON COLUMN phone_inboxes.export_since IS 'the phone is asked to post the messages from this time up to export_until again; null: it is not asked';

-- migrate:down
DROP TABLE phone_inboxes;
