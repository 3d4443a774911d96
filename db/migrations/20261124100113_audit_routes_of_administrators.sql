-- migrate:up
-- The route of a pool of one sender is made by a submission and deleted by a sweep: it is no change of an administrator. This locks routes for a moment.
SET LOCAL lock_timeout = '5s';
CREATE FUNCTION pool_has_sender(of_pool bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM pools p WHERE p.id = of_pool AND p.sender_id IS NOT NULL)
$$;
DROP TRIGGER audited ON routes;
CREATE TRIGGER audited AFTER INSERT OR UPDATE OF pool_id, sender_id, weight, sort, status ON routes
FOR EACH ROW WHEN (NOT pool_has_sender(new.pool_id)) EXECUTE FUNCTION audit_change('route', 'id', 'served,last_turn,next_turn');
CREATE TRIGGER audited_deletion AFTER DELETE ON routes
FOR EACH ROW WHEN (NOT pool_has_sender(old.pool_id)) EXECUTE FUNCTION audit_change('route', 'id', 'served,last_turn,next_turn');

-- migrate:down
SET LOCAL lock_timeout = '5s';
DROP TRIGGER audited_deletion ON routes;
DROP TRIGGER audited ON routes;
CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE OF pool_id, sender_id, weight, sort, status ON routes
FOR EACH ROW EXECUTE FUNCTION audit_change('route', 'id', 'served,last_turn,next_turn');
DROP FUNCTION pool_has_sender(bigint);
