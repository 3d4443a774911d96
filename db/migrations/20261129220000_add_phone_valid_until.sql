-- migrate:up
CREATE FUNCTION phone_margin(leased_at timestamptz, lease_until timestamptz, longest interval) RETURNS interval LANGUAGE sql IMMUTABLE
RETURN least(longest, (lease_until - leased_at) / 3);
COMMENT ON FUNCTION phone_margin(timestamptz, timestamptz, interval) IS
    'The time that a lease of a phone allows for the clock error of the phone, and for a message that the radio is already sending.';

CREATE FUNCTION phone_valid_until(leased_at timestamptz, lease_until timestamptz, send_before timestamptz, longest_margin interval)
RETURNS timestamptz LANGUAGE sql STABLE
RETURN CASE WHEN send_before BETWEEN leased_at AND lease_until THEN send_before -- no other sender can receive the message after this time
    ELSE lease_until - phone_margin(leased_at, lease_until, longest_margin) END;
COMMENT ON FUNCTION phone_valid_until(timestamptz, timestamptz, timestamptz, interval) IS
    'The time until which a phone can send the message of a lease. It is the margin before the end of the lease. If the lease ends because the message must not be sent any more, it is this time (send_before). send_before is earlier than the lease if a change of quiet hours has set quiet_from to epoch.';

-- migrate:down
DROP FUNCTION phone_valid_until(timestamptz, timestamptz, timestamptz, interval);
DROP FUNCTION phone_margin(timestamptz, timestamptz, interval);
