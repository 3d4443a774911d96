package sqlinbox_test

import (
	"fmt"
	"strings"
	"testing"

	"lksms/internal/platform/migrate"
	"lksms/internal/platform/postgres"
	"lksms/internal/testkit/apptest"
	"lksms/internal/testkit/pgtest"
	"lksms/internal/transport/sqlinbox"
)

// A role that can only submit acquires every lock that it is allowed to acquire. No server is blocked.
func TestRoleThatOnlySubmitsCannotBlockServers(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	b.Call("GET", "/api/v1/events", nil) // a listener for events exists after this call
	shop, _ := roleOf(b, "user-of-acme")
	tables := apptest.Scan[[]string](b, "SELECT array_agg(relname::text) FROM pg_class WHERE relkind = 'r' AND relname LIKE 'lock\\_%'")
	jobs := make([]string, len(tables))
	for i, table := range tables {
		jobs[i] = strings.ReplaceAll(strings.TrimPrefix(table, "lock_"), "_", "-")
		// The previous version uses these advisory locks.
		exec(t, shop, "SELECT pg_advisory_lock(1818981239, hashtext($1)), pg_advisory_lock(hashtextextended(replace($1, '-', '_'), 0))", jobs[i])
		for _, sql := range []string{"DO $$ BEGIN LOCK TABLE " + table + " IN ACCESS SHARE MODE; END $$", "SELECT lock_table('" + table + "')", "SELECT lock_table_try('" + table + "')"} {
			if _, err := shop.Exec(t.Context(), sql); refusal(err).Code != "42501" {
				t.Errorf("%s: %v", sql, err)
			}
		}
	}
	exec(t, shop, "SELECT pg_advisory_lock(hashtext('lksms feed')), pg_advisory_lock(465659194739)") // 465659194739 is the lock of migrations
	if _, err := shop.Exec(t.Context(), "SELECT FROM business_locks FOR UPDATE"); refusal(err).Code != "42501" {
		t.Errorf("business_locks: %v", err)
	}

	for _, job := range jobs {
		lock, err := b.App.DB.TryLock(t.Context(), job)
		if err != nil || lock == nil {
			t.Fatalf("no server can do %s: %v", job, err)
		}
		if err := lock.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	}
	id := b.Submit("x")
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/cancel", nil)
	if n, err := b.App.Feed.Sequence(t.Context()); n == 0 || err != nil {
		t.Errorf("the feed got %d events: %v", n, err)
	}
	if _, err := b.App.Statistics.RollUp(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := migrate.Up(t.Context(), b.Options.DatabaseURL, nil); err != nil {
		t.Error(err)
	}
}

// The grant limits the resources of a role, unless the role has limits already.
func TestGrantLimitsResourcesOfRole(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	name, _ := newRole(b)
	const settings = `SELECT r.rolconnlimit || ' ' || coalesce(array_to_string(s.setconfig, ' '), '') FROM pg_roles r
		LEFT JOIN pg_db_role_setting s ON s.setrole = r.oid WHERE r.rolname = $1`

	missing, err := sqlinbox.NewRoles(b.App.DB).Bound(t.Context(), name, sqlinbox.DefaultBounds)
	if err != nil {
		t.Fatal(err)
	}
	if got := apptest.Scan[string](b, settings, name); got != "-1 " || len(missing) != 3 {
		t.Errorf("the role of the service cannot change other roles: the settings are %q, and %v are left to a superuser", got, missing)
	}

	super, err := postgres.Open(t.Context(), pgtest.Admin(t, b.Options.DatabaseURL))
	if err != nil {
		t.Fatal(err)
	}
	defer super.Close()
	for range 2 { // the second call finds the limits and changes nothing
		if missing, err = sqlinbox.NewRoles(super).Bound(t.Context(), name, sqlinbox.DefaultBounds); err != nil || len(missing) > 0 {
			t.Fatal(missing, err)
		}
		if got := apptest.Scan[string](b, settings, name); got != "20 idle_in_transaction_session_timeout=30s temp_file_limit=1GB" {
			t.Errorf("a superuser set %q", got)
		}
		exec(t, b.DB, "SELECT 1")
	}
	own, _ := newRole(b)
	admin := connect(t, pgtest.Admin(t, b.Options.DatabaseURL))
	exec(t, admin, "ALTER ROLE "+own+" CONNECTION LIMIT 3; ALTER ROLE "+own+" SET temp_file_limit = '5MB'")
	if missing, err = sqlinbox.NewRoles(super).Bound(t.Context(), own, sqlinbox.Bounds{Connections: 50, TempFiles: "2GB"}); err != nil || len(missing) > 0 {
		t.Fatal(missing, err)
	}
	if got := apptest.Scan[string](b, settings, own); got != "3 temp_file_limit=5MB" {
		t.Errorf("the limits that the role had before became %q", got)
	}
}

// A role cannot know the lock of an idempotency key, and therefore not reject the request of a user who uses a key that can be guessed.
func TestRoleThatOnlySubmitsCannotHoldIdempotencyKeys(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	shop, _ := roleOf(b, "user-of-acme")
	send := func(key string) {
		t.Helper()
		b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": "13712345678", "content": "x"}, append(acme, "Idempotency-Key", key)...)
	}
	send("order-1041")
	guess := apptest.Scan[string](b, "SELECT username || E'\\n' || operation || E'\\norder-1042' FROM idempotency_keys")
	for _, hashed := range []string{"$1", "encode(sha256(convert_to($1, 'UTF8')), 'hex')"} {
		exec(t, shop, "SELECT pg_advisory_lock(hashtextextended("+hashed+", 0))", guess)
	}
	if _, err := shop.Exec(t.Context(), "SELECT secret FROM idempotency_secret"); refusal(err).Code != "42501" {
		t.Errorf("a role reads the secret: %v", err)
	}
	send("order-1042")
	if length := b.Count("SELECT length(secret) FROM idempotency_secret"); length != 32 {
		t.Errorf("the secret has %d bytes", length)
	}
}

// A grant limits a role, and a revocation takes its rights. Both would stop the service if the role belonged to the service.
func TestRoleOfTheServiceIsNotGranted(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	admin := connect(t, pgtest.Admin(t, b.Options.DatabaseURL))
	owner := apptest.Scan[string](b, "SELECT current_user")
	member, _ := newRole(b)
	group, _ := newRole(b)
	writer, _ := newRole(b)
	created, _ := newRole(b)
	exec(t, admin, fmt.Sprintf("GRANT %[1]s TO %[2]s; GRANT INSERT ON queue TO %[3]s; GRANT %[4]s TO %[1]s", owner, member, writer, group))
	if scan[int](t, admin, "SELECT current_setting('server_version_num')::integer") >= 160000 {
		exec(t, admin, fmt.Sprintf("GRANT %s TO %s WITH ADMIN TRUE, INHERIT FALSE, SET FALSE", created, owner)) // as CREATE ROLE does
	}
	super := scan[string](t, admin, "SELECT current_user")
	asOwner := sqlinbox.NewRoles(b.App.DB)
	asSuper, err := postgres.Open(t.Context(), pgtest.Admin(t, b.Options.DatabaseURL))
	if err != nil {
		t.Fatal(err)
	}
	defer asSuper.Close()
	refused := func(who string, roles sqlinbox.Roles, role, why string) {
		t.Helper()
		if err := roles.Grant(t.Context(), "user-of-acme", role); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s grants to %s: %v, want %q", who, role, err, why)
		}
	}
	refused("the owner", asOwner, owner, "connect with it")
	refused("the owner", asOwner, super, "is a superuser")
	refused("the owner", asOwner, member, "is a member of the role that owns")
	refused("the owner", asOwner, group, "is a member of it")
	refused("the owner", asOwner, writer, "can write the tables")
	refused("a superuser", sqlinbox.NewRoles(asSuper), owner, "owns the schema lksms")
	for _, roles := range []sqlinbox.Roles{asOwner, sqlinbox.NewRoles(asSuper)} {
		if err := roles.Grant(t.Context(), "user-of-acme", created); err != nil {
			t.Error(err)
		}
	}

	exec(t, admin, "INSERT INTO sql_roles (role_name, user_id) SELECT $1, id FROM users WHERE username = 'user-of-acme'", owner) // as an earlier version did
	if err := asOwner.Revoke(t.Context(), owner); err != nil {
		t.Error(err)
	}
	if !scan[bool](t, admin, "SELECT has_schema_privilege($1, 'lksms', 'USAGE') AND has_table_privilege($1, 'lksms.outgoing', 'INSERT')", owner) {
		t.Error("the owner lost its rights")
	}
	if n := b.Count("SELECT count(*) FROM sql_roles WHERE role_name = '" + owner + "'"); n != 0 {
		t.Error("the owner can still submit")
	}
}
