-- The outbox of outbox.sh, in the database of your program.
CREATE TABLE outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    phone_number text NOT NULL CHECK (length(phone_number) <= 50),
    content text NOT NULL CHECK (length(content) <= 1024) -- no setting of LKSMS allows more, and 100 of them fit into one request
);
