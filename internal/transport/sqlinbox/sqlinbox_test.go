package sqlinbox_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"lksms/internal/dispatch/queue"
	"lksms/internal/platform/optional"
	"lksms/internal/testkit/apptest"
	"lksms/internal/testkit/pgtest"
	"lksms/internal/transport/sqlinbox"
)

func TestMain(m *testing.M) { apptest.Main(m) }

// newRole creates a PostgreSQL role that can log in, and returns its name and a URL for the database of b.
func newRole(b *apptest.Bundle) (name, to string) {
	b.T.Helper()
	name = "shop_" + strings.ToLower(rand.Text())[:12]
	admin := connect(b.T, pgtest.Admin(b.T, b.Options.DatabaseURL))
	exec(b.T, admin, "CREATE ROLE "+name+" LOGIN PASSWORD 'shop'")
	b.T.Cleanup(func() {
		ctx := context.WithoutCancel(b.T.Context())
		conn, err := pgx.Connect(ctx, pgtest.Admin(b.T, b.Options.DatabaseURL))
		if err != nil {
			b.T.Error(err)
			return
		}
		defer conn.Close(ctx)
		if _, err := conn.Exec(ctx, "DROP OWNED BY "+name+"; DROP ROLE "+name); err != nil {
			b.T.Error(err)
		}
	})
	u, err := url.Parse(b.Options.DatabaseURL)
	if err != nil {
		b.T.Fatal(err)
	}
	u.User = url.UserPassword(name, "shop")
	return name, u.String()
}

// roleOf returns a connection of a new role that submits for a user.
func roleOf(b *apptest.Bundle, username string) (*pgx.Conn, string) {
	b.T.Helper()
	name, to := newRole(b)
	if err := sqlinbox.NewRoles(b.App.DB).Grant(b.T.Context(), username, name); err != nil {
		b.T.Fatal(err)
	}
	return connect(b.T, to), name
}

func connect(t testing.TB, to string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// querier is a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func exec(t testing.TB, on querier, sql string, args ...any) {
	t.Helper()
	if _, err := on.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func scan[T any](t testing.TB, on querier, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := on.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

const enqueue = "SELECT lksms.enqueue('13800138000', $1)"

func begin(t testing.TB, conn *pgx.Conn) pgx.Tx {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}

func commit(t testing.TB, tx pgx.Tx) {
	t.Helper()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// take runs the sweep of the inbox once, and returns the number of messages that it removed.
func take(b *apptest.Bundle) int {
	b.T.Helper()
	n, err := b.App.SQLInbox.Take(b.T.Context())
	if err != nil {
		b.T.Fatal(err)
	}
	return n
}

// again makes the messages due that wait for a retry, and runs the sweep.
func again(b *apptest.Bundle) {
	b.T.Helper()
	b.Exec("UPDATE sql_inbox SET due_at = now()")
	take(b)
}

func refusal(err error) *pgconn.PgError {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused
	}
	return &pgconn.PgError{}
}

// B12: a message is committed and rolled back together with the transaction of its caller.
func TestMessageIsCommittedAndRolledBackWithCallerTransaction(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	shop, role := roleOf(b, "user-of-acme")

	tx := begin(t, shop)
	scan[string](t, tx, enqueue, "rolled back")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := take(b); n != 0 {
		t.Fatalf("%d messages of a transaction that was rolled back", n)
	}

	tx = begin(t, shop)
	id := scan[string](t, tx, "SELECT lksms.enqueue('13800138000', 'paid', dedup_key => 'order-1', sign => 'Acme', source => 'shop', priority => 2, test => true)")
	if n := take(b); n != 0 {
		t.Errorf("%d messages of an open transaction", n)
	}
	commit(t, tx)
	if n := take(b); n != 1 {
		t.Fatalf("converted %d messages", n)
	}
	if n := b.Count("SELECT count(*) FROM sql_inbox"); n != 0 {
		t.Errorf("%d messages are left in the inbox", n)
	}
	var task map[string]any
	if err := json.Unmarshal(b.Expect(200, "", "GET", "/api/v1/sms/task/"+id, nil, acme...).Body.Data, &task); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"content": "paid", "sign": "Acme", "source": "shop", "priority": 2.0, "test": true, "message_type": "notification", "status": 0.0} {
		if task[name] != want {
			t.Errorf("%s is %v, want %v", name, task[name], want)
		}
	}
	log := apptest.Scan[string](b, "SELECT concat_ws('|', m.user_agent, m.submitted_by, c.company_no, m.request_data ->> 'content', m.request_id LIKE 'sql-%') FROM messages m JOIN companies c ON c.id = m.company_id WHERE m.task_id = $1", id)
	if want := "SQL, role " + role + "|user-of-acme|acme|paid|t"; log != want {
		t.Errorf("the log says %s, want %s", log, want)
	}
	if leases := b.Claim("phone", 10); len(leases) != 1 || leases[0].TaskID != id {
		t.Errorf("a sender got %v", leases)
	}
}

// B12: a message that was submitted by SQL is signed once, in the mode of its sender.
func TestMessageSubmittedBySQLIsSignedBySender(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	shop, _ := roleOf(b, "user-of-acme")
	for no, mode := range map[string]string{"front": "in_text", "adds": "by_provider", "bare": "none"} {
		b.AddSender(map[string]any{"sender_no": no, "sign_mode": mode, "balance": 9})
	}
	long := strings.Repeat("长", 68)
	for no, want := range map[string]struct {
		content, sign string
		balance       int64
	}{"front": {"【公司】" + long, "", 7}, "adds": {long, "公司", 7}, "bare": {long, "", 8}} {
		exec(t, shop, "SELECT lksms.enqueue('13800138000', $1, sign => '公司')", "【公司】"+long)
		take(b)
		got := b.Take(no, 1)
		if len(got) != 1 || got[0].Content != want.content || optional.Value(got[0].Sign) != want.sign {
			t.Errorf("%s got %+v", no, got)
		}
		if left := *b.GetSender(no).Balance; left != want.balance {
			t.Errorf("%s has a balance of %d, want %d", no, left, want.balance)
		}
	}
}

// B12: the role can only call the functions.
func TestRoleOfSQLInboxCannotReadTables(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	shop, role := roleOf(b, "user-of-acme")
	for _, sql := range []string{
		"SELECT * FROM messages", "SELECT * FROM queue", "SELECT * FROM sql_inbox", "SELECT * FROM sql_roles", "SELECT * FROM users",
		"INSERT INTO sql_roles (role_name, user_id) SELECT 'x', 1", "DELETE FROM sql_inbox", "SELECT sql_inbox_user()", "SELECT sql_role_grant('x')",
		"SELECT sql_inbox_put(NULL, 1, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
		"CREATE TABLE lksms.mine (id int)", "CREATE FUNCTION lksms.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
	} {
		if _, err := shop.Exec(t.Context(), sql); refusal(err).Code != "42501" {
			t.Errorf("%s: %v", sql, err)
		}
	}
	may := apptest.Scan[*string](b, `SELECT string_agg(c.oid::regclass::text, ' ' ORDER BY c.oid) FROM pg_class c
		WHERE c.relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
			AND has_table_privilege($1, c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')`, role)
	if may == nil || *may != "lksms.outgoing" {
		t.Errorf("the role may use %v", may)
	}
	functions := apptest.Scan[string](b, `SELECT string_agg(p.oid::regproc::text, ' ' ORDER BY p.proname) FROM pg_proc p
		WHERE (p.prosecdef OR p.proname LIKE 'sql\_%') AND p.pronamespace IN ('public'::regnamespace, 'lksms'::regnamespace) AND has_function_privilege($1, p.oid, 'EXECUTE')`, role)
	if functions != "lksms.enqueue lksms.enqueue_all" {
		t.Errorf("the role may call %s", functions)
	}
	if n := scan[int](t, shop, "SELECT count(*) FROM lksms.outgoing"); n != 0 {
		t.Errorf("outgoing has %d rows", n)
	}
	// The functions do not use tables of the caller that have the names of the service's tables.
	exec(t, shop, "CREATE TEMPORARY TABLE sql_roles AS SELECT session_user::text AS role_name, 1::bigint AS user_id; SET search_path = pg_temp")
	scan[string](t, shop, enqueue, "as before")
	if got := apptest.Scan[string](b, "SELECT submitted_by FROM sql_inbox"); got != "user-of-acme" {
		t.Errorf("submitted by %s", got)
	}
}

// A transaction does not fail because the company of its role is off: its message is held until the company is on.
func TestMessagesOfACompanyThatIsOffAreHeld(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	shop, _ := roleOf(b, "user-of-acme")
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/acme", `{"status":"off"}`)
	scan[string](t, shop, enqueue, "x")
	if n := take(b); n != 1 {
		t.Errorf("%d messages were taken", n)
	}
	if leases := b.Claim("app", 1); len(leases) != 0 {
		t.Errorf("a held task was claimed: %v", leases)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/acme", `{"status":"on"}`)
	apptest.Eventually(t, "the task is claimed", func() bool { return len(b.Claim("app", 1)) == 1 })
}

// B12: a role submits for one user of LKSMS. If this user is not allowed to submit, the message is rejected.
func TestRoleIsRejectedIfItsUserCannotSubmit(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	b.AddUser("reader", "read", nil)
	shop, role := roleOf(b, "user-of-acme")
	roles := sqlinbox.NewRoles(b.App.DB)
	expect := func(what, hint string) {
		t.Helper()
		_, err := shop.Exec(t.Context(), enqueue, "x")
		if r := refusal(err); r.Code != "42501" || !strings.Contains(r.Hint, hint) {
			t.Errorf("%s: %v, hint %s", what, err, r.Hint)
		}
	}
	scan[string](t, shop, enqueue, "x")
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/user-of-acme", `{"is_disabled":true}`)
	expect("a disabled user", "lksms user enable")
	if _, err := shop.Exec(t.Context(), "SELECT * FROM lksms.enqueue_all('[]')"); refusal(err).Code != "42501" {
		t.Errorf("an empty set of a disabled user: %v", err)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/user-of-acme", `{"is_disabled":false}`)
	scan[string](t, shop, enqueue, "x")
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/user-of-acme", `{"role":"read"}`)
	expect("a user who only reads", "submit or admin")
	exec(t, b.DB, "DELETE FROM users WHERE username = 'user-of-acme'")
	expect("a deleted user", "lksms sql grant")
	if n := take(b); n != 2 {
		t.Errorf("%d of the messages that were accepted became tasks", n)
	}

	for _, name := range []string{"reader", "nobody"} {
		if err := roles.Grant(t.Context(), name, role); err == nil || !strings.Contains(err.Error(), "username") {
			t.Errorf("granted for %s: %v", name, err)
		}
	}
	if err := roles.Grant(t.Context(), "reader", "no role"); err == nil || !strings.Contains(err.Error(), "role") {
		t.Errorf("granted to no role: %v", err)
	}
	b.AddUser("other", "submit", map[string]any{"company_no": "acme"})
	if err := roles.Grant(t.Context(), "other", role); err != nil {
		t.Fatal(err)
	}
	scan[string](t, shop, enqueue, "x")
	if err := roles.Revoke(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	if _, err := shop.Exec(t.Context(), enqueue, "x"); refusal(err).Code != "42501" {
		t.Errorf("a role without grants: %v", err)
	}
	if err := roles.Revoke(t.Context(), role); err == nil {
		t.Error("the second revoke succeeded")
	}
}

// A grant fails while every role can create functions in the schema of the tables. Otherwise functions that run with the rights of the owner could call a
// function of another role.
func TestGrantFailsWhileEveryRoleCanCreateFunctions(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	name, _ := newRole(b)
	admin := connect(t, pgtest.Admin(t, b.Options.DatabaseURL))
	for _, maker := range []string{"PUBLIC", name} {
		exec(t, admin, "GRANT CREATE ON SCHEMA public TO "+maker)
		err := sqlinbox.NewRoles(b.App.DB).Grant(t.Context(), "user-of-acme", name)
		if r := refusal(err); r.Code != "42501" || !strings.Contains(r.Message, "REVOKE CREATE ON SCHEMA public FROM "+maker) {
			t.Errorf("granted while %s may make functions: %v", maker, err)
		}
		exec(t, admin, "REVOKE CREATE ON SCHEMA public FROM "+maker)
	}
	if n := b.Count("SELECT count(*) FROM sql_roles"); n != 0 {
		t.Errorf("%d roles are stored", n)
	}
}

// If a role can create schemas, it could create a schema with the name of the owner. The functions in this schema must not replace the functions of the
// service.
func TestFunctionsIgnoreSchemasOfUsers(t *testing.T) {
	b := apptest.New(t)
	if n := b.Count("SELECT count(*) FROM pg_proc WHERE prosecdef AND pronamespace IN ('lksms'::regnamespace, 'public'::regnamespace)"); n < 3 {
		t.Errorf("only %d functions have the rights of their owner", n)
	}
	if n := b.Count(`SELECT count(*) FROM pg_proc WHERE pronamespace IN ('lksms'::regnamespace, 'public'::regnamespace)
		AND (prosecdef AND proconfig IS NULL OR array_to_string(proconfig, ',') LIKE '%$user%')`); n != 0 {
		t.Errorf("%d functions have another search path", n)
	}
}

// B12: messages of different companies do not mix in the inbox, and many messages of one company do not delay another.
func TestManyMessagesOfOneCompanyDoNotDelayAnotherCompany(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	b.AddCompany("beta", 1)
	acme, _ := roleOf(b, "user-of-acme")
	beta, _ := roleOf(b, "user-of-beta")
	flood := make([]map[string]any, 450)
	for i := range flood {
		flood[i] = map[string]any{"phone_number": "13800138000", "content": fmt.Sprint("flood ", i)}
	}
	exec(t, acme, "SELECT * FROM lksms.enqueue_all($1)", flood)
	scan[string](t, beta, enqueue, "of beta")
	if n := take(b); n != 451 {
		t.Errorf("took %d", n)
	}
	if n := b.Count("SELECT count(*) FROM messages WHERE created_at <= (SELECT created_at FROM messages WHERE content = 'of beta') AND content LIKE 'flood%'"); n > 100 {
		t.Errorf("%d messages of another company were converted earlier", n)
	}
	if n := b.Count("SELECT count(*) FROM messages m JOIN companies c ON c.id = m.company_id WHERE c.company_no <> CASE WHEN m.content = 'of beta' THEN 'beta' ELSE 'acme' END"); n > 0 {
		t.Errorf("%d messages belong to another company", n)
	}
}

// B12: a set of messages is submitted completely or not at all, keeps its order, and returns an id for each message.
func TestMessagesOfASetKeepTheirOrder(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	shop, _ := roleOf(b, "user-of-acme")
	all := make([]map[string]any, 1000)
	for i := range all {
		all[i] = map[string]any{"phone_number": "13800138000", "content": fmt.Sprint("no ", i), "dedup_key": fmt.Sprint("key-", 999-i)}
	}
	rows, err := shop.Query(t.Context(), "SELECT place, task_id FROM lksms.enqueue_all($1)", all)
	if err != nil {
		t.Fatal(err)
	}
	type made struct {
		Place  int
		TaskID string
	}
	ids, err := pgx.CollectRows(rows, pgx.RowToStructByPos[made])
	if err != nil || len(ids) != 1000 {
		t.Fatalf("%d ids, %v", len(ids), err)
	}
	if n := take(b); n != 1000 {
		t.Fatalf("took %d", n)
	}
	for i, one := range ids {
		if one.Place != i+1 {
			t.Fatalf("the message of position %d is at %d", one.Place, i)
		}
	}
	if n := b.Count("SELECT count(*) FROM messages m JOIN unnest($1::text[]) WITH ORDINALITY AS i (task_id, n) ON m.task_id = i.task_id AND m.content = 'no ' || (i.n - 1)",
		idsOf(ids, func(m made) string { return m.TaskID })); n != 1000 {
		t.Errorf("%d tasks have the id of their row", n)
	}
	leases := b.Claim("phone", 100)
	for i, lease := range leases {
		if lease.TaskID != ids[i].TaskID {
			t.Fatalf("task %d is claimed as %d", slices.IndexFunc(ids, func(m made) bool { return m.TaskID == lease.TaskID }), i)
		}
	}

	all[998]["phone_number"] = "12"
	_, err = shop.Exec(t.Context(), "SELECT * FROM lksms.enqueue_all($1)", all)
	if r := refusal(err); r.Code != "LK005" || r.ColumnName != "phone_number" || !strings.Contains(r.Detail, "Message 999 ") {
		t.Errorf("a set with a bad number: %v, %s", err, r.Detail)
	}
	if n := b.Count("SELECT count(*) FROM sql_inbox"); n != 0 {
		t.Errorf("%d messages of a refused set", n)
	}
	for set, want := range map[string]string{`[]`: "", `null`: "", `{}`: "LK014", `[1]`: "LK014", `[{"phone":"x"}]`: "LK015"} {
		if _, err := shop.Exec(t.Context(), "SELECT * FROM lksms.enqueue_all($1::text::jsonb)", set); refusal(err).Code != want {
			t.Errorf("%s: %v", set, err)
		}
	}
	if _, err := shop.Exec(t.Context(), "SELECT * FROM lksms.enqueue_all($1)", append(all, all[0])); refusal(err).Code != "LK016" {
		t.Errorf("a set of 1001: %v", err)
	}
}

func idsOf[T any](all []T, id func(T) string) []string {
	ids := make([]string, len(all))
	for i, one := range all {
		ids[i] = id(one)
	}
	return ids
}

// A repeated message returns the first task, as over HTTP, even if its values are no longer allowed. A new message with the same values is rejected.
func TestRepeatedSubmissionIsAcceptedWithValuesThatAreNoLongerAllowed(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	shop, _ := roleOf(b, "user-of-acme")
	const call = "SELECT lksms.enqueue('13800138000', $1, dedup_key => $2, expires_at => $3, priority => $4)"
	past := time.Now().Add(-time.Hour)
	first := scan[string](t, shop, call, "x", "key", time.Now().Add(time.Hour), 5)
	if id := scan[string](t, shop, call, "x", "key", past, 5); id != first {
		t.Errorf("the repeat of %s, which is no task yet, is %s", first, id)
	}
	take(b)
	if id := scan[string](t, shop, call, strings.Repeat("x", 1000), "key", past, 0); id != first {
		t.Errorf("the repeat of %s is %s", first, id)
	}
	for _, key := range []*string{nil, new("another")} {
		var refused *pgconn.PgError
		if err := shop.QueryRow(t.Context(), call, "x", key, past, 5).Scan(new(string)); !errors.As(err, &refused) || refused.Code != "LK010" {
			t.Errorf("%v: %v", key, err)
		}
	}
	var refused *pgconn.PgError
	if err := shop.QueryRow(t.Context(), call, nil, "key", past, 5).Scan(new(string)); !errors.As(err, &refused) || refused.Code != "LK001" {
		t.Errorf("without content: %v", err)
	}
	take(b)
	if n := b.Count("SELECT count(*) FROM messages"); n != 1 {
		t.Errorf("%d messages", n)
	}
}

// keyed is a user of a company that submits messages with dedup keys over HTTP, and by SQL with the connection shop.
type keyed struct {
	*apptest.Bundle
	headers []string
	shop    *pgx.Conn
	role    string
}

func newKeyed(t *testing.T) keyed {
	t.Helper()
	k := keyed{Bundle: apptest.New(t)}
	k.headers = k.AddCompany("acme", 1)
	k.shop, k.role = roleOf(k.Bundle, "user-of-acme")
	return k
}

// named submits a message with a dedup key by SQL, and returns its task_id.
func named(t *testing.T, on querier, key string) string {
	t.Helper()
	return scan[string](t, on, "SELECT lksms.enqueue('13800138000', 'x', dedup_key => $1)", key)
}

// send submits a message with a dedup key over HTTP, and returns its task_id.
func (k keyed) send(key string) string {
	k.T.Helper()
	var made struct {
		TaskID string `json:"task_id"`
	}
	answer := k.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": "13800138000", "content": "x", "dedup_key": key}, k.headers...)
	if err := json.Unmarshal(answer.Body.Data, &made); err != nil {
		k.T.Fatal(err)
	}
	return made.TaskID
}

func (k keyed) count(key string) int {
	return k.Count("SELECT count(*) FROM messages WHERE dedup_key = $1", key)
}

// B12: a dedup key identifies the same message over HTTP and by SQL.
func TestDedupKeyIsSharedBySQLAndHTTP(t *testing.T) {
	k := newKeyed(t)
	first := k.send("http first")
	if id := named(t, k.shop, "http first"); id != first {
		t.Errorf("the repeat of %s is %s", first, id)
	}
	first = named(t, k.shop, "sql first")
	if id := named(t, k.shop, "sql first"); id != first {
		t.Errorf("the repeat of %s in the inbox is %s", first, id)
	}
	take(k.Bundle)
	if id := k.send("sql first"); id != first {
		t.Errorf("the repeat of %s over HTTP is %s", first, id)
	}
	if n := k.Count("SELECT count(*) FROM fruitless_submissions WHERE status_code = 200 AND user_agent = $1", "SQL, role "+k.role); n != 2 {
		t.Errorf("%d repeats of SQL are logged", n)
	}
}

// B12: a message over HTTP is accepted although an open transaction has submitted a message with the same key before.
func TestHTTPMessageIsAcceptedDespiteOpenTransactionWithSameKey(t *testing.T) {
	k := newKeyed(t)
	tx := begin(t, k.shop)
	lost := named(t, tx, "race")
	first := k.send("race")
	commit(t, tx)
	take(k.Bundle)
	if k.count("race") != 1 || lost == first {
		t.Errorf("%d tasks, of %s and %s", k.count("race"), first, lost)
	}
	if id := named(t, k.shop, "race"); id != first {
		t.Errorf("later the message has the id %s, not %s", id, first)
	}
	k.Expect(404, "task.not_found", "GET", "/api/v1/sms/task/"+lost, nil, k.headers...)
}

// B12: two open transactions use the same key. The second transaction waits for the first.
func TestSubmissionWaitsForOpenTransactionWithSameDedupKey(t *testing.T) {
	k := newKeyed(t)
	again := connect(t, k.shop.Config().ConnString())
	for _, isCommitted := range []bool{true, false} {
		key := fmt.Sprint("together ", isCommitted)
		tx := begin(t, k.shop)
		first := named(t, tx, key)
		second := make(chan string, 1)
		go func() {
			var id string
			_ = again.QueryRow(t.Context(), "SELECT lksms.enqueue('13800138000', 'x', dedup_key => $1)", key).Scan(&id)
			second <- id
		}()
		apptest.Eventually(t, "the second waits for the first", func() bool {
			return k.Count("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = $1", again.PgConn().PID()) > 0
		})
		if isCommitted {
			commit(t, tx)
		} else if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		id := <-second
		if id == "" || (id == first) != isCommitted {
			t.Errorf("%s: the first is %s, the second %s", key, first, id)
		}
		take(k.Bundle)
		if k.count(key) != 1 || k.Count("SELECT count(*) FROM messages WHERE task_id = $1", id) != 1 {
			t.Errorf("%s: %d tasks", key, k.count(key))
		}
	}
}

// B12: the same key of another user of the company identifies another message.
func TestDedupKeyBelongsToOneUser(t *testing.T) {
	k := newKeyed(t)
	k.AddUser("other", "submit", map[string]any{"company_no": "acme"})
	other, _ := roleOf(k.Bundle, "other")
	ids := []string{named(t, k.shop, "both"), named(t, other, "both")}
	take(k.Bundle)
	if ids[0] == ids[1] || k.count("both") != 2 {
		t.Errorf("%d tasks of two users", k.count("both"))
	}
}

// B12: even if the sweep is killed, each message becomes exactly one task.
func TestKilledSweepNeitherLosesNorDuplicatesMessages(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	shop, _ := roleOf(b, "user-of-acme")
	for i := range 250 {
		scan[string](t, shop, enqueue, fmt.Sprint(i))
	}
	b.Exec(`CREATE SEQUENCE deaths;
		CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF nextval('deaths') IN (1, 3) THEN
				PERFORM pg_terminate_backend(pg_backend_pid());
				PERFORM 1;
			END IF;
			RETURN NULL;
		END $$;
		CREATE CONSTRAINT TRIGGER dies AFTER DELETE ON sql_inbox DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION die()`)
	failures := 0
	apptest.Eventually(t, "all messages leave the inbox", func() bool {
		if _, err := b.App.SQLInbox.Take(t.Context()); err != nil {
			failures++
		}
		return b.Count("SELECT count(*) FROM sql_inbox") == 0
	})
	if failures != 2 {
		t.Errorf("%d runs were killed", failures)
	}
	if n := b.Count("SELECT count(*) FROM messages"); n != 250 {
		t.Errorf("%d tasks", n)
	}
	if n := b.Count("SELECT count(DISTINCT content) FROM messages"); n != 250 {
		t.Errorf("%d different texts", n)
	}
	// Two servers run the sweep at the same time.
	for i := range 250 {
		scan[string](t, shop, enqueue, fmt.Sprint("again ", i))
	}
	another := apptest.Another(b)
	apptest.Together(2, func(i int) {
		if i == 0 {
			_, _ = another.SQLInbox.Take(t.Context())
		} else {
			_, _ = b.App.SQLInbox.Take(t.Context())
		}
	})
	take(b)
	if n := b.Count("SELECT count(DISTINCT content) FROM messages WHERE content LIKE 'again%'"); n != 250 || b.Count("SELECT count(*) FROM messages") != 500 {
		t.Errorf("%d texts of two servers", n)
	}
}

// B12: an accepted message does not disappear if the server finds later that it cannot be sent.
func TestMessageThatServerRejectsBecomesFailedTask(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	acme := b.AddCompany("acme", 1)
	b.AddCountry("NZ", "64", nil)
	b.Expect(200, "", "POST", "/api/v1/admin/template", `{"template_no":"code","template_name":"n","template_content":"Your code is {code}"}`)
	b.Expect(200, "", "POST", "/api/v1/webhooks", `{"url":"https://example.com/","events":["message.failed"]}`, acme...)
	shop, _ := roleOf(b, "user-of-acme")
	made := map[string]string{
		"短信模板参数不符": scan[string](t, shop, `SELECT lksms.enqueue('13800138000', template_no => 'code', params => '{"name":"x"}')`),
		"手机号码无效":   scan[string](t, shop, "SELECT lksms.enqueue('+999 1234 56789', 'x', dedup_key => 'no number')"),
		"已过期":      scan[string](t, shop, "SELECT lksms.enqueue('13800138000', 'x', expires_at => clock_timestamp() + interval '1 hour')"),
	}
	rendered := scan[string](t, shop, `SELECT lksms.enqueue('13800138000', template_no => 'code', params => '{"code":"42"}')`)
	good := scan[string](t, shop, enqueue, "good")
	b.Exec("UPDATE sql_inbox SET expires_at = now() - interval '1 second' WHERE expires_at IS NOT NULL") // simulates a long transaction of the caller
	take(b)
	again(b)
	for why, id := range made {
		got := apptest.Scan[string](b, "SELECT concat_ws('|', t.status, t.result, t.submitted_by, r.event) FROM tasks t JOIN report_logs r USING (task_id) WHERE t.task_id = $1", id)
		if want := "3|" + why + "|user-of-acme|unreachable"; got != want {
			t.Errorf("the task is %s, want %s", got, want)
		}
		b.Expect(200, "", "GET", "/api/v1/sms/task/"+id, nil, acme...)
		b.Expect(200, "", "GET", "/api/v1/sms/task/"+id+"/timeline", nil, acme...)
		if n := b.Count("SELECT count(*) FROM feed_staged WHERE task_id = $1 AND type = 'message.failed'", id); n != 1 {
			t.Errorf("%s: %d events", why, n)
		}
	}
	if got := b.Task(rendered).Content; got != "Your code is 42" {
		t.Errorf("rendered: %s", got)
	}
	if got := b.Task(good).Status; int16(got) != queue.Pending {
		t.Errorf("the good one is %d", got)
	}
	if id := scan[string](t, shop, "SELECT lksms.enqueue('13800138000', 'x', dedup_key => 'no number')"); id != made["手机号码无效"] {
		t.Errorf("the repeat of a refused message is %s", id)
	}
}

// B12: while a transaction is open, its user gets another company, and the first company is deleted. The messages of the transaction fail, like the other tasks
// of a deleted company.
func TestMessagesOfADeletedCompanyBecomeFailedTasks(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	b.AddCountry("NZ", "64", nil)
	shop, _ := roleOf(b, "user-of-acme")
	tx := begin(t, shop)
	abroad := scan[string](t, tx, "SELECT lksms.enqueue('+64211234567', 'x')")
	invalid := scan[string](t, tx, "SELECT lksms.enqueue('+999 1234 56789', 'x')")
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/user-of-acme", `{"company_no":"default"}`)
	b.Expect(200, "", "DELETE", "/api/v1/admin/companies/acme", nil)
	commit(t, tx)
	take(b)
	again(b)
	for id, want := range map[string]string{abroad: "3|公司已删除|NZ|1", invalid: "3|手机号码无效||1"} {
		got := apptest.Scan[string](b, `SELECT concat_ws('|', t.status, t.result, coalesce(t.country_no, ''), (SELECT count(*) FROM pools p
			WHERE p.id = t.pool_id AND p.company_id IS NULL AND p.sender_id IS NULL AND p.channel_id = (SELECT c.id FROM channels c WHERE c.channel = 'sms')))
			FROM tasks t WHERE t.task_id = $1`, id)
		if got != want {
			t.Errorf("the task is %s, want %s", got, want)
		}
	}
	if n := b.Count("SELECT count(*) FROM sql_inbox"); n != 0 {
		t.Errorf("%d messages are left", n)
	}
	if _, err := b.App.History.Fold(t.Context()); err != nil {
		t.Error(err)
	}
	b.Expect(200, "", "GET", "/api/v1/sms/task/"+abroad, nil)
}

// B12: a limit is raised or a country is added, and one server has not read the change yet. Messages that were accepted with the new settings do not fail
// on this server.
func TestNoMessageFailsOnAServerWithOutdatedSettings(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	shop, _ := roleOf(b, "user-of-acme")
	b.Expect(200, "", "POST", "/api/v1/sms/send", `{"phone_number":"13800138000","content":"this server reads the settings"}`, acme...)
	b.Exec(`INSERT INTO settings (category, name, value, updated_by) VALUES ('sms', 'max_content_notification', '400', 'another server')
		ON CONFLICT ON CONSTRAINT settings_pkey DO UPDATE SET value = excluded.value`)
	id := scan[string](t, shop, "SELECT lksms.enqueue('13800138000', repeat('x', 300))")
	take(b)
	if got := apptest.Scan[string](b, "SELECT concat_ws(' ', tries, due_at > now() + interval '4 seconds') FROM sql_inbox WHERE task_id = $1", id); got != "1 t" {
		t.Fatalf("the message does not wait: %s", got)
	}
	// A change through this server makes the server read all settings again.
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", `{"queue":{"priority_max_wait_seconds":3600}}`)
	again(b)
	if got := b.Task(id).Status; int16(got) != queue.Pending {
		t.Errorf("the task is %d", got)
	}
}

// B12: a message that was accepted with a blank text, by the function of an earlier version, becomes FAILED.
func TestAMessageWithABlankTextBecomesAFailedTask(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	shop, _ := roleOf(b, "user-of-acme")
	id := scan[string](t, shop, enqueue, "text")
	b.Exec("UPDATE sql_inbox SET content = chr(11) WHERE task_id = $1", id)
	take(b)
	again(b)
	if got := b.Task(id).Status; int16(got) != queue.Failed {
		t.Errorf("the task is %d", got)
	}
}

// B12: a message that the database rejects does not block later messages. It is retried, and finally becomes FAILED.
func TestPoisonMessageDoesNotBlockOtherMessages(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	shop, _ := roleOf(b, "user-of-acme")
	b.Exec(`CREATE FUNCTION spit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'poison'; END $$;
		CREATE TRIGGER spits BEFORE INSERT ON messages FOR EACH ROW WHEN (NEW.content LIKE 'poison%' AND NEW.pool_id > 0 AND NEW.user_agent <> '') EXECUTE FUNCTION spit()`)
	bad := scan[string](t, shop, enqueue, "poison")
	for i := range 120 {
		scan[string](t, shop, enqueue, fmt.Sprint("good ", i))
	}
	take(b)
	if n := b.Count("SELECT count(*) FROM messages WHERE content LIKE 'good%'"); n != 120 {
		t.Fatalf("%d good messages became tasks", n)
	}
	if got := apptest.Scan[string](b, "SELECT concat_ws(' ', tries, due_at > now()) FROM sql_inbox WHERE task_id = $1", bad); got != "1 t" {
		t.Errorf("the poisoned one: %s", got)
	}
	b.Exec("UPDATE sql_inbox SET tries = 9, due_at = now()")
	scan[string](t, shop, enqueue, "good")
	take(b) // the database also rejects the FAILED task
	if got := apptest.Scan[string](b, "SELECT concat_ws(' ', tries, due_at > now()) FROM sql_inbox WHERE task_id = $1", bad); got != "10 t" {
		t.Errorf("the poisoned one: %s", got)
	}
	b.Exec("DROP TRIGGER spits ON messages; CREATE TRIGGER spits BEFORE INSERT ON queue FOR EACH ROW WHEN (NEW.content LIKE 'poison%') EXECUTE FUNCTION spit(); UPDATE sql_inbox SET due_at = now()")
	take(b)
	if n := b.Count("SELECT count(*) FROM sql_inbox WHERE tries = 11"); n != 1 { // no other message succeeded, so this message is not proven to be the cause
		t.Error("alone, the poisoned one is not tried again")
	}
	b.Exec("UPDATE sql_inbox SET due_at = now()")
	scan[string](t, shop, enqueue, "good too")
	take(b)
	if task := b.Task(bad); int16(task.Status) != queue.Failed || *task.Result != "内部错误，无法发送" {
		t.Errorf("the poisoned one is %d", task.Status)
	}
	if n := b.Count("SELECT count(*) FROM sql_inbox"); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

// S4.10: an erasure waits until all earlier messages of the inbox are tasks.
func TestErasureWaitsForInbox(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	shop, _ := roleOf(b, "user-of-acme")
	scan[string](t, shop, enqueue, "to a person")
	b.Expect(200, "", "POST", "/api/v1/contacts/erasures", map[string]any{"phone": apptest.Phone}, b.AddUser("boss", "admin", nil)...)
	_ = acme
	if got := b.Count("SELECT count(*) FROM erasures WHERE status = 'done'"); got != 0 {
		t.Fatal("the call returned before its run")
	}
	run := func() {
		t.Helper()
		b.Exec("UPDATE erasures SET next_at = now(), company_id = (SELECT id FROM companies WHERE company_no = 'acme') WHERE finished_at IS NULL")
		if _, err := b.App.Erasures.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if n := b.Count("SELECT count(*) FROM erasures WHERE finished_at IS NOT NULL"); n != 0 {
		t.Fatal("the erasure ended with the person in the inbox")
	}
	take(b)
	apptest.Eventually(t, "the erasure ends", func() bool {
		run()
		return b.Count("SELECT count(*) FROM erasures WHERE finished_at IS NOT NULL") == 1
	})
	if n := b.Count("SELECT count(*) FROM messages WHERE recipient = '+8613800138000' OR content = 'to a person'"); n != 0 {
		t.Errorf("%d messages have the person", n)
	}
}

func TestAgeOfInboxIsExportedAsMetric(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	shop, _ := roleOf(b, "user-of-acme")
	metric := func(line string) {
		t.Helper()
		if got := b.Call("GET", "/metrics", nil).Raw; !strings.Contains(got, line) {
			t.Errorf("no %q in the metrics", line)
		}
	}
	metric("\nlksms_sql_inbox_oldest_seconds 0\n")
	scan[string](t, shop, enqueue, "x")
	b.Exec("UPDATE sql_inbox SET created_at = now() - interval '1 hour'")
	metric("\nlksms_sql_inbox_oldest_seconds 360")
	take(b)
	metric("\nlksms_sql_inbox_oldest_seconds 0\n")
	metric("lksms_sql_messages_total{outcome=\"task\"} 1\n")
}

// An open transaction holds no lock that blocks submissions of other callers.
func TestOpenTransactionOfCallerBlocksNobody(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	shop, _ := roleOf(b, "user-of-acme")
	tx := begin(t, shop)
	scan[string](t, tx, "SELECT lksms.enqueue('13800138000', 'x', dedup_key => 'held')")
	start := time.Now()
	b.Expect(200, "", "POST", "/api/v1/sms/send", `{"phone_number":"13800138000","content":"x","dedup_key":"held"}`, acme...)
	b.Claim("phone", 10)
	take(b)
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("the other submissions took %s", took)
	}
}

// A message that is refused after its submission cannot be requeued: its task contains no checked text.
func TestRefusedMessageIsNotRequeued(t *testing.T) {
	b := apptest.New(t)
	b.AddUser("shop", "submit", nil)
	conn, _ := roleOf(b, "shop")
	b.Expect(200, "", "POST", "/api/v1/blocks", `{"phone_number":"13800138000","scope":"all"}`)
	id := scan[string](t, conn, enqueue, "x")
	take(b)
	again(b)
	b.AwaitStatus(id, 3)
	b.Expect(409, "task.refused", "POST", "/api/v1/sms/task/"+id+"/requeue", nil)
}
