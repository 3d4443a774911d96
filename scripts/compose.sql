-- psql runs this once, in a new volume, as the superuser postgres. The service gets an ordinary role that owns its database. The superuser
-- has no password afterwards, so that nobody becomes it over the network: docker compose exec postgres psql --username=postgres
\getenv password POSTGRES_PASSWORD
CREATE ROLE lksms LOGIN PASSWORD :'password';
CREATE DATABASE lksms OWNER lksms;
ALTER ROLE postgres PASSWORD NULL;
