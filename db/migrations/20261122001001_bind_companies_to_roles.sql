-- migrate:up
-- A company binds submit and read users. It never bound the others: send users claim and report what any company submitted, and lose a
-- company that had no effect; admin users see every company. Admin users submit in the name of company_id as before: their messages
-- must not move to another company. Locks users for a moment; it holds tens of rows.
UPDATE users
SET has_company = false, company_id = CASE role WHEN 'admin' THEN company_id ELSE 1 END, version = version + 1, updated_at = now()
WHERE role IN ('send', 'admin') AND (has_company OR company_id <> 1);
SET CONSTRAINTS ALL IMMEDIATE; -- a table whose deferred triggers have yet to run cannot be altered
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE users ADD CONSTRAINT users_company_binds_role CHECK (NOT has_company OR role IN ('submit', 'read'));
COMMENT ON COLUMN users.has_company IS
    'whether its company binds it; false: company_id only says in whose name it submits, and a read user sees every company';

-- migrate:down
COMMENT ON COLUMN users.has_company IS 'whether a company was named for it: a read user without one sees every company, though company_id says 1';
ALTER TABLE users DROP CONSTRAINT users_company_binds_role;
UPDATE users SET has_company = true WHERE company_id <> 1;
