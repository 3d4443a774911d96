-- migrate:up
ALTER TABLE sql_roles ADD COLUMN is_connect_granted boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN sql_roles.is_connect_granted IS
    'true: sql_role_grant granted CONNECT on the database, and sql_role_revoke revokes it. false: the role had CONNECT, or was granted before this column';

CREATE OR REPLACE FUNCTION sql_role_revoke(role_name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF to_regrole(quote_ident(role_name)) IS NULL THEN
        RETURN; -- its grants left with it
    END IF;
    EXECUTE format('REVOKE ALL ON lksms.outgoing FROM %I', role_name);
    EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA lksms FROM %I', role_name);
    EXECUTE format('REVOKE ALL ON SCHEMA lksms FROM %I', role_name);
    IF EXISTS (SELECT FROM sql_roles r WHERE r.role_name = sql_role_revoke.role_name AND r.is_connect_granted) THEN
        EXECUTE format('REVOKE CONNECT ON DATABASE %I FROM %I', current_database(), role_name);
    END IF;
END
$$;
COMMENT ON FUNCTION sql_role_revoke(role_name text) IS
    'Revokes the privileges that sql_role_grant granted. Run it before the row of sql_roles is deleted: is_connect_granted of this row says whether CONNECT is revoked, too.';

-- migrate:down
CREATE OR REPLACE FUNCTION sql_role_revoke(role_name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF to_regrole(quote_ident(role_name)) IS NULL THEN
        RETURN; -- its grants left with it
    END IF;
    EXECUTE format('REVOKE ALL ON lksms.outgoing FROM %I', role_name);
    EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA lksms FROM %I', role_name);
    EXECUTE format('REVOKE ALL ON SCHEMA lksms FROM %I', role_name);
END
$$;
COMMENT ON FUNCTION sql_role_revoke(role_name text) IS
    'Revokes the privileges that sql_role_grant granted, except CONNECT, which the role possibly needs for other purposes.';

ALTER TABLE sql_roles DROP COLUMN is_connect_granted;
