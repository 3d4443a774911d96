-- migrate:up

-- PostgreSQL planned the statement of this trigger again for each row, because it took a plan for the parameters for cheaper. A new plan took twice as long as
-- the rest of the trigger, so a list of blocks needed seconds.
ALTER FUNCTION audit_change() SET plan_cache_mode = force_generic_plan;

-- migrate:down

ALTER FUNCTION audit_change() RESET plan_cache_mode;
