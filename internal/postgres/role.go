package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// adminRole is the superuser that initdb makes. Only prepare connects as it.
	adminRole = "lksms"
	// serviceRole is an ordinary role. It owns the schema public and what is in it, and nothing else.
	serviceRole    = "lksms_service"
	serverDatabase = "lksms"
)

// prepare makes the database, and has its schema belong to serviceRole with all that is in it. In a cluster of an earlier version the
// superuser owns everything. Each step first looks at what is there: the next start completes one that was cut short.
func (s *Server) prepare(ctx context.Context) error {
	err := withConn(ctx, s.url(adminRole, s.admin, "postgres"), func(conn *pgx.Conn) error {
		if err := unless(ctx, conn, "SELECT FROM pg_roles WHERE rolname = '"+serviceRole+"'",
			"CREATE ROLE "+serviceRole+" NOLOGIN"); err != nil { // it may log in when everything is its own
			return err
		}
		return unless(ctx, conn, "SELECT FROM pg_database WHERE datname = '"+serverDatabase+"'",
			"CREATE DATABASE "+serverDatabase)
	})
	if err == nil {
		err = withConn(ctx, s.AdminURL(), func(conn *pgx.Conn) error {
			return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, handOver+allowLogin+quoteLiteral(s.password))
				return err
			})
		})
	}
	if err == nil {
		err = s.ping(ctx)
	}
	if err != nil {
		return fmt.Errorf("prepare the database for role %s: %w; PostgreSQL's last words:\n%s", serviceRole, err, s.lastWords())
	}
	return nil
}

// handOver gives serviceRole the schema public and everything in it that is not part of an extension. Indexes, array
// types and sequences of a column follow what they belong to. The superuser runs this among objects of an ordinary role, so no
// function or operator may be looked up outside of pg_catalog. REASSIGN OWNED refuses the role that initdb made. The database
// stays the superuser's: its owner could give it settings that the superuser's own sessions would take.
const handOver = `
SET LOCAL search_path = pg_catalog, pg_temp;
ALTER DATABASE ` + serverDatabase + ` OWNER TO ` + adminRole + `;
GRANT CONNECT, TEMPORARY ON DATABASE ` + serverDatabase + ` TO ` + serviceRole + `;
DO $$
DECLARE
    service CONSTANT oid := '` + serviceRole + `'::regrole;
    object text;
BEGIN
    FOR object IN
        SELECT format('SCHEMA %I', n.nspname) FROM pg_namespace n
        WHERE n.nspname = 'public' AND pg_get_userbyid(n.nspowner) <> '` + serviceRole + `'
        UNION ALL
        SELECT format('TABLE %s', c.oid::regclass) FROM pg_class c
        WHERE c.relnamespace = 'public'::regnamespace AND c.relowner <> service AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
            AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
                AND (d.deptype = 'e' OR c.relkind = 'S' AND d.deptype IN ('a', 'i')))
        UNION ALL
        SELECT format('ROUTINE %s', p.oid::regprocedure) FROM pg_proc p
        WHERE p.pronamespace = 'public'::regnamespace AND p.proowner <> service
            AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
        UNION ALL
        SELECT format('TYPE %s', t.oid::regtype) FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
        WHERE t.typnamespace = 'public'::regnamespace AND t.typowner <> service
            AND (t.typtype IN ('d', 'e', 'r') OR t.typtype = 'c' AND c.relkind = 'c')
            AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_type'::regclass AND d.objid = t.oid AND d.deptype = 'e')
    LOOP
        EXECUTE 'ALTER ' || object || ' OWNER TO ` + serviceRole + `';
    END LOOP;
END $$;
`

// allowLogin is followed by the password.
const allowLogin = "ALTER ROLE " + serviceRole + " LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD "

// unless carries out a statement if a query finds no row.
func unless(ctx context.Context, conn *pgx.Conn, query, statement string) error {
	var found bool
	err := conn.QueryRow(ctx, "SELECT EXISTS ("+query+")").Scan(&found)
	if err == nil && !found {
		_, err = conn.Exec(ctx, statement)
	}
	return err
}

func quoteLiteral(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// ping connects as the service does.
func (s *Server) ping(ctx context.Context) error {
	return withConn(ctx, s.URL(), func(*pgx.Conn) error { return nil })
}

func withConn(ctx context.Context, url string, fn func(*pgx.Conn) error) error {
	connecting, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(connecting, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it did its work
	return fn(conn)
}
