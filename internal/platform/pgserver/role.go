package pgserver

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"lksms/internal/platform/postgres"
)

const (
	// adminRole is the superuser that initdb creates. The service itself never connects as adminRole.
	adminRole = "lksms"
	// serviceRole is an ordinary role. It owns only the schemas public and lksms with their objects.
	serviceRole    = "lksms_service"
	serverDatabase = "lksms"
)

// prepare creates the database, and makes serviceRole the owner of its schemas with all objects. In a cluster of an earlier version, the superuser owns all
// these objects. Every step checks the existing state, so that the next start completes an interrupted start.
func (s *Server) prepare(ctx context.Context) error {
	err := postgres.WithConn(ctx, s.url(adminRole, s.admin, "postgres"), func(conn *pgx.Conn) error {
		if err := execUnless(ctx, conn, "SELECT FROM pg_roles WHERE rolname = '"+serviceRole+"'",
			"CREATE ROLE "+serviceRole+" NOLOGIN"); err != nil { // handOver and allowLogin run next: the role can log in only after it owns everything
			return err
		}
		return execUnless(ctx, conn, "SELECT FROM pg_database WHERE datname = '"+serverDatabase+"'",
			"CREATE DATABASE "+serverDatabase)
	})
	if err == nil {
		err = postgres.WithConn(ctx, s.AdminURL(), func(conn *pgx.Conn) error {
			return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, handOver+allowLogin+postgres.Literal(s.password))
				return err
			})
		})
	}
	if err == nil {
		err = s.ping(ctx)
	}
	if err != nil {
		return fmt.Errorf("prepare the database for role %s: %w; end of PostgreSQL's log:\n%s", serviceRole, err, s.logEnd())
	}
	return nil
}

// handOver makes serviceRole the owner of the schemas public and lksms, if they exist, and of all their objects that are not part of an extension. The role
// gets the right to create schemas, which the migration of the schema lksms needs. Indexes, array types and the sequences of columns get their new owner
// together with their table or type. The superuser runs handOver on objects of an ordinary role. All functions and operators must therefore be looked up in
// pg_catalog only. REASSIGN OWNED cannot be used, because it refuses the role that initdb created. The superuser stays the owner of the database, because the
// owner of a database can set parameters that apply to the sessions of the superuser.
const handOver = `
SET LOCAL search_path = pg_catalog, pg_temp;
ALTER DATABASE ` + serverDatabase + ` OWNER TO ` + adminRole + `;
GRANT CONNECT, CREATE, TEMPORARY ON DATABASE ` + serverDatabase + ` TO ` + serviceRole + `;
DO $$
DECLARE
    service CONSTANT oid := '` + serviceRole + `'::regrole;
    schemas CONSTANT oid[] := ARRAY(SELECT n.oid FROM pg_namespace n WHERE n.nspname IN ('public', 'lksms'));
    object text;
BEGIN
    FOR object IN
        SELECT format('SCHEMA %I', n.nspname) FROM pg_namespace n
        WHERE n.oid = ANY (schemas) AND pg_get_userbyid(n.nspowner) <> '` + serviceRole + `'
        UNION ALL
        SELECT format('TABLE %s', c.oid::regclass) FROM pg_class c
        WHERE c.relnamespace = ANY (schemas) AND c.relowner <> service AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
            AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
                AND (d.deptype = 'e' OR c.relkind = 'S' AND d.deptype IN ('a', 'i')))
        UNION ALL
        SELECT format('ROUTINE %s', p.oid::regprocedure) FROM pg_proc p
        WHERE p.pronamespace = ANY (schemas) AND p.proowner <> service
            AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
        UNION ALL
        SELECT format('TYPE %s', t.oid::regtype) FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
        WHERE t.typnamespace = ANY (schemas) AND t.typowner <> service
            AND (t.typtype IN ('d', 'e', 'r') OR t.typtype = 'c' AND c.relkind = 'c')
            AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_type'::regclass AND d.objid = t.oid AND d.deptype = 'e')
    LOOP
        EXECUTE 'ALTER ' || object || ' OWNER TO ` + serviceRole + `';
    END LOOP;
END $$;
`

// allowLogin is the statement that allows serviceRole to log in. The caller appends the quoted password.
const allowLogin = "ALTER ROLE " + serviceRole + " LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD "

// execUnless executes a statement if a query finds no row.
func execUnless(ctx context.Context, conn *pgx.Conn, query, statement string) error {
	var found bool
	err := conn.QueryRow(ctx, "SELECT EXISTS ("+query+")").Scan(&found)
	if err == nil && !found {
		_, err = conn.Exec(ctx, statement)
	}
	return err
}

// ping connects with the role of the service.
func (s *Server) ping(ctx context.Context) error {
	return postgres.WithConn(ctx, s.URL(), func(*pgx.Conn) error { return nil })
}
