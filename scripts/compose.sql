-- psql runs this file once, in a new volume, as the superuser postgres. The file creates an ordinary role for the service, which owns its database. It also
-- removes the password of the superuser, so that nobody can log in as superuser over the network. Log in inside the container:
-- docker compose exec postgres psql --username=postgres
\getenv password POSTGRES_PASSWORD
CREATE ROLE lksms LOGIN PASSWORD :'password';
CREATE DATABASE lksms OWNER lksms;
ALTER ROLE postgres PASSWORD NULL;
