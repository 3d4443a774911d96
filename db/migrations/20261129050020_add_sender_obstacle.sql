-- migrate:up
CREATE FUNCTION sims_are_on(of_sender bigint, has_sims boolean) RETURNS boolean LANGUAGE sql STABLE
RETURN CASE WHEN has_sims THEN EXISTS (SELECT FROM sender_sims s WHERE s.sender_id = of_sender AND s.is_on) ELSE true END;
COMMENT ON FUNCTION sims_are_on(bigint, boolean) IS 'Whether a SIM of a sender is on. It is true for a sender without SIMs.';

CREATE FUNCTION sender_obstacle(is_on boolean, has_sim boolean, has_funds boolean, is_silent boolean, has_quota boolean, is_working boolean, is_rested boolean)
RETURNS text LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN NOT is_on THEN 'off' WHEN NOT has_sim THEN 'sims_off' WHEN NOT has_funds THEN 'no_funds' WHEN is_silent THEN 'silent'
    WHEN NOT has_quota THEN 'no_quota' WHEN NOT is_working THEN 'outside_hours' WHEN NOT is_rested THEN 'paused'
END;
COMMENT ON FUNCTION sender_obstacle(boolean, boolean, boolean, boolean, boolean, boolean, boolean) IS
    'Returns why a sender cannot claim tasks; null: it can. If several reasons apply, a reason that somebody must remove comes before those that end by themselves.';

-- migrate:down
DROP FUNCTION sender_obstacle(boolean, boolean, boolean, boolean, boolean, boolean, boolean);
DROP FUNCTION sims_are_on(bigint, boolean);
