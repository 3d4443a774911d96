-- migrate:up
COMMENT ON TABLE deliveries IS
    'An attempt to send a task through a provider: what a report said (the number of the provider), or why the outcome is unclear. Written by internal/dispatch/queue; the erasure of a person takes its texts. No foreign keys: each insert would lock rows of other tables.';

-- migrate:down
COMMENT ON TABLE deliveries IS
    'An attempt to send a task through a provider: what a report said (the number of the provider), or why the outcome is unclear. Written by internal/dispatch/queue (reports) and internal/dispatch/push (unclear outcomes). No foreign keys: each insert would lock rows of other tables.';
