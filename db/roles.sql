-- Two roles for a PostgreSQL of your own: lksms_owner owns the schema and applies migrations (lksms migrate up), and lksms_service
-- serves (lksms serve) without the right to change the schema.
--
-- First, as a superuser:
--
--   CREATE ROLE lksms_owner LOGIN PASSWORD '...';
--   CREATE ROLE lksms_service LOGIN PASSWORD '...';
--   CREATE DATABASE lksms OWNER lksms_owner;
--
-- Then run this file in that database, as a superuser, before or after the first migration; running it again changes nothing.

REVOKE ALL ON DATABASE lksms FROM PUBLIC;
GRANT CONNECT ON DATABASE lksms TO lksms_service;

REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE, CREATE ON SCHEMA public TO lksms_owner;
GRANT USAGE ON SCHEMA public TO lksms_service;

-- The existing tables, sequences and functions, and those of later migrations. Functions make the partitions of the tasks.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO lksms_service;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO lksms_service;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO lksms_service;
ALTER DEFAULT PRIVILEGES FOR ROLE lksms_owner IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO lksms_service;
ALTER DEFAULT PRIVILEGES FOR ROLE lksms_owner IN SCHEMA public GRANT USAGE ON SEQUENCES TO lksms_service;
ALTER DEFAULT PRIVILEGES FOR ROLE lksms_owner IN SCHEMA public GRANT EXECUTE ON FUNCTIONS TO lksms_service;
