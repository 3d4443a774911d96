-- migrate:up
-- A callback is stored by one statement with its receipts, or with the reason why it is refused.
COMMENT ON TABLE callbacks IS
    'An HTTP callback of a provider, as it came. Written by internal/receipt, which deletes old rows. sender_no has no foreign key: a callback does not stop the deletion of its sender.';
COMMENT ON COLUMN callbacks.refused IS 'the error reason that the provider got; null: the callback was accepted';

-- migrate:down
COMMENT ON TABLE callbacks IS
    'An HTTP callback of a provider, stored before it is parsed. Written by internal/receipt, which deletes old rows. sender_no has no foreign key: a callback does not stop the deletion of its sender.';
COMMENT ON COLUMN callbacks.refused IS 'the error reason that the provider got; null: the callback was accepted, or the server stopped while it parsed the body';
