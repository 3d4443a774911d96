-- migrate:up
-- Locks users for a moment; it holds tens of rows.
ALTER TABLE users ADD COLUMN has_company boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN users.has_company IS 'whether a company was named for it: a read user without one sees every company, though company_id says 1';
UPDATE users SET has_company = true WHERE company_id <> 1;

-- migrate:down
ALTER TABLE users DROP COLUMN has_company;
