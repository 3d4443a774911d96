package sqlinbox_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/segment"
	"lksms/internal/testkit/apptest"
)

// submission is one message in its form for HTTP and SQL. code is the SQLSTATE, and field the field, with which both interfaces reject the message. If code
// is empty, both interfaces accept the message.
type submission struct {
	name        string
	body        map[string]any
	code, field string
}

func in(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }

const day = 24 * time.Hour

// submissions returns the cases of TestSQLAndHTTPRejectSameMessages. phone_number and content are valid unless a case sets them. A nil value removes a field.
func submissions() []submission {
	long := func(n int) string { return strings.Repeat("长", n) }
	return []submission{
		{name: "good"},
		{name: "the number with separators", body: map[string]any{"phone_number": "+86 138-0013-8000"}},
		{name: "a foreign number", body: map[string]any{"phone_number": "+1 202 555 0143"}},
		{name: "no number", body: map[string]any{"phone_number": nil}, code: "LK001", field: "phone_number"},
		{name: "a short number", body: map[string]any{"phone_number": "1380013800"}, code: "LK005", field: "phone_number"},
		{name: "a long number", body: map[string]any{"phone_number": "138001380001380013800"}, code: "LK005", field: "phone_number"},
		{name: "letters", body: map[string]any{"phone_number": "1380013800x"}, code: "LK005", field: "phone_number"},
		{name: "a mainland number with a digit too many", body: map[string]any{"phone_number": "+86138001380001"}, code: "LK005", field: "phone_number"},
		{name: "a mainland number with a digit too few", body: map[string]any{"phone_number": "+861380013800"}, code: "LK005", field: "phone_number"},
		{name: "an empty number", body: map[string]any{"phone_number": ""}, code: "LK005", field: "phone_number"},
		{name: "a newline behind the number", body: map[string]any{"phone_number": "13800138000\n"}},
		{name: "a short number in full", body: map[string]any{"phone_number": "+376312345"}},
		{name: "a number with marks", body: map[string]any{"phone_number": "\u202a１３８.00138000\u00a0"}},
		{name: "a number of a spreadsheet", body: map[string]any{"phone_number": "13800138000.0"}},
		{name: "a number of a country that is not known", body: map[string]any{"phone_number": "081234567890"}, code: "LK005", field: "phone_number"},
		{name: "a blank text", body: map[string]any{"content": " \t\u3000\u00a0"}, code: "LK002", field: "content"},
		{name: "a vertical tab", body: map[string]any{"content": " \v"}, code: "LK002", field: "content"},
		{name: "the letter v", body: map[string]any{"content": "v"}},
		{name: "the longest text", body: map[string]any{"content": long(200)}},
		{name: "a long text", body: map[string]any{"content": long(201)}, code: "LK003", field: "content"},
		{name: "a text that is longer than the database stores", body: map[string]any{"content": long(1025)}, code: "LK003", field: "content"},
		{name: "a long marketing text", body: map[string]any{"content": long(31), "message_type": "marketing"}, code: "LK003", field: "content"},
		{name: "the longest marketing text", body: map[string]any{"content": long(30), "message_type": "marketing"}},
		{name: "two segments of verification", body: map[string]any{"content": long(71), "message_type": "verification"}, code: "LK003", field: "content"},
		{name: "two segments with the signature", body: map[string]any{"content": long(67), "sign": "示例", "message_type": "verification"}, code: "LK003", field: "content"},
		{name: "one segment with the signature", body: map[string]any{"content": long(66), "sign": "例例", "message_type": "verification"}},
		{name: "another message type", body: map[string]any{"message_type": "spam"}, code: "LK007", field: "message_type"},
		{name: "a small priority", body: map[string]any{"priority": -1}, code: "LK008", field: "priority"},
		{name: "a big priority", body: map[string]any{"priority": 10}, code: "LK008", field: "priority"},
		{name: "a priority that is too urgent", body: map[string]any{"priority": 0}, code: "LK009", field: "priority"},
		{name: "the most urgent priority of the user", body: map[string]any{"priority": 1}},
		{name: "the least urgent priority", body: map[string]any{"priority": 9}},
		{name: "a later time", body: map[string]any{"expect_send_time": in(365 * day), "expires_at": in(366 * day)}},
		{name: "a time in the past", body: map[string]any{"expect_send_time": in(-day)}},
		{name: "too late", body: map[string]any{"expect_send_time": in(368 * day)}, code: "LK011", field: "expect_send_time"},
		{name: "expired", body: map[string]any{"expires_at": in(-time.Hour)}, code: "LK010", field: "expires_at"},
		{name: "expired before it is sent", body: map[string]any{"expires_at": in(day), "expect_send_time": in(2 * day)}, code: "LK010", field: "expires_at"},
		{name: "expires too late", body: map[string]any{"expires_at": in(735 * day)}, code: "LK011", field: "expires_at"},
		{name: "an empty dedup key", body: map[string]any{"dedup_key": ""}, code: "LK004", field: "dedup_key"},
		{name: "the longest dedup key", body: map[string]any{"dedup_key": long(100)}},
		{name: "a long dedup key", body: map[string]any{"dedup_key": long(101)}, code: "LK003", field: "dedup_key"},
		{name: "a source", body: map[string]any{"source": long(50)}},
		{name: "a long source", body: map[string]any{"source": long(51)}, code: "LK003", field: "source"},
		{name: "an empty source", body: map[string]any{"source": ""}},
		{name: "an empty signature", body: map[string]any{"sign": ""}, code: "LK004", field: "sign"},
		{name: "a long signature", body: map[string]any{"sign": long(21)}, code: "LK003", field: "sign"},
		{name: "a signature with brackets", body: map[string]any{"sign": "【x】"}, code: "LK006", field: "sign"},
		{name: "a signature with a control character", body: map[string]any{"sign": "a\tb"}, code: "LK006", field: "sign"},
		{name: "a test", body: map[string]any{"test": true}},
		{name: "a template", body: map[string]any{"content": nil, "template_no": "code", "params": map[string]any{"code": "1"}}},
		{name: "a template with its params as a text", body: map[string]any{"content": "", "template_no": "code", "params": "1"}},
		{name: "no such template", body: map[string]any{"content": nil, "template_no": "none"}, code: "LK012", field: "template_no"},
		{name: "the template of another company", body: map[string]any{"content": nil, "template_no": "of-beta"}, code: "LK012", field: "template_no"},
		{name: "an empty template", body: map[string]any{"content": nil, "template_no": ""}, code: "LK004", field: "template_no"},
		{name: "a long template", body: map[string]any{"content": nil, "template_no": long(51)}, code: "LK003", field: "template_no"},
		{name: "a text and a template", body: map[string]any{"template_no": "code"}, code: "LK013", field: "content"},
		{name: "params without a template", body: map[string]any{"params": map[string]any{"code": "1"}}, code: "LK013", field: "params"},
		{name: "a language without a template", body: map[string]any{"language": "en"}, code: "LK013", field: "language"},
		{name: "a bad language", body: map[string]any{"content": nil, "template_no": "code", "params": "1", "language": "English"}, code: "LK006", field: "language"},
		{name: "a list of params", body: map[string]any{"content": nil, "template_no": "code", "params": []any{1}}, code: "LK014", field: "params"},
	}
}

// B12: the same messages are submitted over HTTP, lksms.enqueue, lksms.enqueue_all and lksms.outgoing. All interfaces reject the same messages with the same
// field.
func TestSQLAndHTTPRejectSameMessages(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	b.AddCompany("beta", 1)
	acme := b.AddUser("shop", "submit", map[string]any{"company_no": "acme", "top_priority": 1})
	b.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", `{"max_content_marketing":30,"max_segments_verification":1}`)
	b.Expect(200, "", "POST", "/api/v1/admin/template", `{"template_no":"code","template_name":"n","template_content":"Your code is {code}"}`)
	b.Expect(200, "", "POST", "/api/v1/admin/template", `{"template_no":"of-beta","template_name":"n","template_content":"x","companies":["beta"]}`)
	shop, _ := roleOf(b, "shop")
	casts := map[string]string{"params": "::jsonb", "expect_send_time": "::timestamptz", "expires_at": "::timestamptz", "priority": "::integer", "test": "::boolean"}
	for _, c := range submissions() {
		body := map[string]any{"phone_number": apptest.Phone, "content": "a text"}
		maps.Copy(body, c.body)
		maps.DeleteFunc(body, func(_ string, v any) bool { return v == nil })
		isBad := c.code != ""

		answer := b.Call("POST", "/api/v1/sms/send", body, acme...)
		if want := map[bool]int{false: 200, true: 422}[isBad]; answer.Status != want || strings.Join(slices.Compact(strings.Split(answer.Fields(), ",")), ",") != c.field {
			t.Errorf("%s: HTTP answers %d for %s, want %d for %s", c.name, answer.Status, answer.Fields(), want, c.field)
		}
		var names, arguments, values []string
		var args []any
		for _, name := range slices.Sorted(maps.Keys(body)) {
			value := body[name]
			switch name {
			case "params":
				text, err := json.Marshal(value)
				if err != nil {
					t.Fatal(err)
				}
				value = string(text)
			case "expect_send_time", "expires_at", "priority", "test":
				value = fmt.Sprint(value)
			}
			args, names = append(args, value), append(names, name)
			values = append(values, fmt.Sprintf("$%d::text%s", len(args), casts[name]))
			arguments = append(arguments, fmt.Sprintf("%s => $%d::text%s", name, len(args), casts[name]))
		}
		for way, call := range map[string]func() error{
			"enqueue": func() error {
				sql := "SELECT lksms.enqueue(" + strings.Join(arguments, ", ") + ")"
				if _, has := body["phone_number"]; !has {
					sql = "SELECT lksms.enqueue(NULL, " + strings.Join(arguments, ", ") + ")"
				}
				_, err := shop.Exec(t.Context(), sql, args...)
				return err
			},
			"outgoing": func() error {
				_, err := shop.Exec(t.Context(), "INSERT INTO lksms.outgoing ("+strings.Join(names, ", ")+") VALUES ("+strings.Join(values, ", ")+")", args...)
				return err
			},
			"enqueue_all": func() error {
				_, err := shop.Exec(t.Context(), "SELECT * FROM lksms.enqueue_all($1)", []any{body})
				return err
			},
		} {
			err := call()
			if r := refusal(err); r.Code != c.code || r.ColumnName != c.field || (err == nil) == isBad {
				t.Errorf("%s: %s answers %v for %s, want %s for %s", c.name, way, err, r.ColumnName, c.code, c.field)
			} else if isBad && (r.ConstraintName == "" || !strings.HasPrefix(r.Message, c.field+": ")) {
				t.Errorf("%s: %s says %q, rule %q", c.name, way, r.Message, r.ConstraintName)
			}
		}
	}
	take(b)
	// The rows of a message that was submitted in different ways differ only in ids and times.
	different := apptest.Scan[*string](b, `SELECT string_agg(x.content || ': ' || x.n, E'\n') FROM (
			SELECT m.content, count(*) FILTER (WHERE m.user_agent LIKE 'SQL%') AS n, count(*) FILTER (WHERE m.user_agent NOT LIKE 'SQL%') AS n_http
			FROM messages m
			WHERE m.dedup_key IS NULL
			GROUP BY m.content, m.phone_number, m.recipient, m.priority, m.segments, m.sign, m.message_type, m.is_test, m.source, m.pool_id, m.country_no, m.submitted_content,
				m.use_template, m.expires_at, m.expect_send_time, m.request_data -> 'template', m.request_data -> 'template_no', m.request_data -> 'params'
		) x WHERE x.n <> 3 * x.n_http`)
	if different != nil {
		t.Errorf("SQL made other tasks than HTTP, the number of each text by SQL:\n%s", *different)
	}
	if n := b.Count("SELECT count(*) FROM tasks WHERE status = 3"); n != 0 {
		t.Errorf("%d of the messages that SQL and HTTP accept failed", n)
	}
}

// HTTP and SQL reject an inactive template. Over HTTP, the response is a conflict that names no field.
func TestInactiveTemplateIsRejectedBySQLAndHTTP(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	b.Expect(200, "", "POST", "/api/v1/admin/template", `{"template_no":"code","template_name":"n","template_content":"x"}`)
	b.Exec("UPDATE templates SET status = 'draft'")
	shop, _ := roleOf(b, "user-of-acme")
	b.Expect(409, "template.not_active", "POST", "/api/v1/sms/send", `{"phone_number":"13800138000","template_no":"code"}`, acme...)
	_, err := shop.Exec(t.Context(), "SELECT lksms.enqueue('13800138000', template_no => 'code')")
	if r := refusal(err); r.Code != "LK012" || r.ColumnName != "template_no" || r.ConstraintName != "not_active" {
		t.Errorf("SQL: %v", err)
	}
}

// The SQL inbox counts segments in the same way as package segment. It accepts all numbers that package phone accepts. Both accept the same mobile numbers
// of mainland China.
func TestSQLInboxCountsSegmentsAndChecksNumbersLikeServer(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	shop, _ := roleOf(b, "user-of-acme")
	var texts []string
	var segments []int
	alphabets := [][]rune{[]rune("abc 1{€^\n"), []rune("长😀a"), []rune("@£é|"), []rune("ab😀")}
	for range 300 {
		alphabet := alphabets[rand.IntN(len(alphabets))]
		text := make([]rune, 1+rand.IntN(500))
		for i := range text {
			text[i] = alphabet[rand.IntN(len(alphabet))]
		}
		texts, segments = append(texts, string(text)), append(segments, segment.Count(string(text)))
	}
	if wrong := apptest.Scan[*string](b, `SELECT string_agg(x.text || ': ' || sql_inbox_segments(x.text) || ', not ' || x.n, E'\n')
		FROM unnest($1::text[], $2::int[]) AS x (text, n) WHERE sql_inbox_segments(x.text) <> x.n`, texts, segments); wrong != nil {
		t.Error(*wrong)
	}
	gsm := make([]string, 0, 0x3000)
	isGSM := make([]int, 0, 0x3000)
	for r := rune(1); r < 0x3000; r++ {
		text := strings.Repeat(string(r), 71) // 71 characters are one segment in the basic GSM alphabet, and two segments in UCS-2
		gsm, isGSM = append(gsm, text), append(isGSM, segment.Count(text))
	}
	if wrong := apptest.Scan[*string](b, `SELECT string_agg(to_hex(ascii(x.text)), ' ') FROM unnest($1::text[], $2::int[]) AS x (text, n) WHERE sql_inbox_segments(x.text) <> x.n`,
		gsm, isGSM); wrong != nil {
		t.Errorf("characters are counted otherwise: %s", *wrong)
	}

	starts := []string{"1", "13", "+86", "+861", "+86 13", "86", "+1", "+44 ", "0", "021", "+", "+852 ", "0086"}
	tx := begin(t, shop)
	for range 3000 {
		number := []byte(starts[rand.IntN(len(starts))])
		for range rand.IntN(14) {
			number = append(number, "0123456789012345678901234567890123456789 -"[rand.IntN(42)])
		}
		if rand.IntN(3) == 0 {
			number = fmt.Appendf([]byte{}, "%s%d%09d", []string{"+861", "1", "+86 1"}[rand.IntN(3)], rand.IntN(10), rand.IntN(1e9))
		}
		_, wrong := phone.Normalise("phone_number", string(number), "")
		_, err := tx.Exec(t.Context(), "SAVEPOINT a")
		if err != nil {
			t.Fatal(err)
		}
		_, err = tx.Exec(t.Context(), "SELECT lksms.enqueue($1, 'x')", string(number))
		exec(t, tx, "ROLLBACK TO a")
		isMainland := strings.HasPrefix(strings.NewReplacer(" ", "", "-", "").Replace(string(number)), "+861") && number[len(number)-1] != '-'
		if err != nil && wrong == nil {
			t.Fatalf("%s is refused: %v", number, err)
		}
		if bare := strings.NewReplacer(" ", "", "-", "").Replace(string(number)); err == nil && wrong != nil && isMainland && len(bare) > 5 && bare[4] >= '3' && bare[4:6] != "60" && bare[4:6] != "68" {
			t.Errorf("%s is accepted", number)
		}
	}
}

func TestSQLInboxReadsFullWidthAndArabicDigits(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	shop, _ := roleOf(b, "user-of-acme")
	for _, number := range []string{"١٣٧١٢٣٤٥٦٧٨", "۱۳۷۱۲۳۴۵۶۷۸", "１３７１２３４５６７８", "٠13712345678"} {
		_, wrong := phone.Normalise("phone_number", number, "")
		if _, err := shop.Exec(t.Context(), "SELECT lksms.enqueue($1, 'x')", number); (err != nil) != (wrong != nil) {
			t.Errorf("%s: SQL says %v, HTTP %v", number, err, wrong)
		}
	}
}

// The ids that SQL generates have the same format as the ids of package queue: the day and a ULID of the time, in ascending order.
func TestIDsOfTheSQLInboxAscendLikeIDsOfTheServer(t *testing.T) {
	b := apptest.New(t)
	before := b.Submit("before")
	ids := apptest.Scan[[]string](b, "SELECT array_agg(sql_inbox_task_id(clock_timestamp(), 0) ORDER BY i) FROM generate_series(1, 2000) i")
	ids = append(ids, apptest.Scan[[]string](b, "SELECT array_agg(sql_inbox_task_id(now() + interval '1 second', i) ORDER BY i) FROM generate_series(0, 1000) i")...)
	if !slices.IsSorted(ids[2000:]) || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != len(ids) {
		t.Error("the ids of one moment do not ascend, or repeat")
	}
	if ids[0] < before || ids[0][:len("task_20060102_")] != time.Now().UTC().Format("task_20060102_") || len(ids[0]) != len(before) {
		t.Errorf("%s is sorted after %s", ids[0], before)
	}
}
