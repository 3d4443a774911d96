package batch_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/platform/optional"
	"lksms/internal/testkit/apptest"
)

// The end of a batch is computed from the intervals, limits and balances of its senders.
func TestTheEndOfABatchIsComputedFromTheLimitsOfItsSenders(t *testing.T) {
	b := apptest.New(t)
	apart := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	for no, c := range map[string]struct {
		limits map[string]any
		list   string
		fields []string
		begin  time.Time // zero: now
		takes  time.Duration
	}{
		"unlimited": {nil, numbers(100), nil, time.Time{}, 0},
		"interval":  {map[string]any{"interval_ms": 10_000}, numbers(13), nil, time.Time{}, 2 * time.Minute},
		"long":      {map[string]any{"interval_ms": 10_000}, "phone,text\n13800138000,1\n13800138001,2\n", []string{"content", long + "{text}"}, time.Time{}, 10 * time.Second},
		"minute":    {map[string]any{"limits": map[string]any{"per_minute": 10}}, numbers(31), nil, time.Time{}, 3 * time.Minute},
		"both":      {map[string]any{"interval_ms": 1000, "limits": map[string]any{"per_day": 5}}, numbers(11), nil, time.Time{}, 48 * time.Hour},
		"rich":      {map[string]any{"interval_ms": 1000, "balance": 61}, numbers(61), nil, time.Time{}, time.Minute},
		"poor":      {map[string]any{"balance": 60}, numbers(61), nil, time.Time{}, -1},
		"later":     {map[string]any{"interval_ms": 1000}, numbers(61), []string{"expect_send_time", apart.Format(time.RFC3339)}, apart, time.Minute},
	} {
		body := map[string]any{"sender_no": no}
		for k, v := range c.limits {
			body[k] = v
		}
		b.AddSender(body)
		fields := append([]string{"sender_no", no}, c.fields...)
		if c.fields == nil || c.fields[0] != "content" {
			fields = append(fields, "content", "hello")
		}
		began := time.Now()
		e := get(b, checked(b, c.list, fields...)).Estimate
		switch {
		case e == nil || (e.EarliestEnd == nil) != (c.takes < 0):
			t.Errorf("%s: %+v, want %s", no, e, c.takes)
		case c.takes >= 0:
			begin, slack := c.begin, time.Second
			if begin.IsZero() {
				begin, slack = began, time.Second+time.Since(began)
			}
			if off := e.EarliestEnd.Sub(begin.Add(c.takes)); off < -time.Second || off > slack {
				t.Errorf("%s: ends %s, want %s after %s", no, e.EarliestEnd, c.takes, begin)
			}
		}
	}
}

// A batch can be read even if its sender was changed or deleted. Reading changes nothing.
func TestABatchWithoutAServingSenderHasNoPredictedEnd(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "one"})
	at := checked(b, numbers(2), "content", "hello", "sender_no", "one")
	b.Exec("DELETE FROM routes")
	b.Exec("DELETE FROM pools WHERE sender_id IS NOT NULL")
	if e := get(b, at).Estimate; e.EarliestEnd == nil || len(e.Costs) != 1 {
		t.Errorf("%+v", e)
	}
	if n := b.Count("SELECT count(*) FROM pools WHERE sender_id IS NOT NULL"); n != 0 {
		t.Errorf("%d pools", n)
	}
	b.AddCompany("acme", 1)
	b.AddRoute("acme", "one", 1) // the sender now serves no other company
	if e := get(b, at).Estimate; e.EarliestEnd != nil || len(e.Costs) != 0 {
		t.Errorf("%+v", e)
	}
	if e := get(b, at, "cancel").Estimate; e != nil {
		t.Errorf("a cancelled batch has the estimate %+v", e)
	}
	if e := get(b, at).Estimate; e != nil {
		t.Errorf("a cancelled batch has the estimate %+v", e)
	}
}

// If a sender forbids signatures, neither the estimate nor a claim counts a signature.
func TestAnEstimateUsesTheCountingMethodOfTheSender(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "front"})
	b.AddSender(map[string]any{"sender_no": "bare", "sign_mode": "none", "balance": 3})
	b.Exec("UPDATE sender_states SET seen_at = now()") // otherwise the sender is silent, and the batch has no predicted end
	long := strings.Repeat("长", 68)
	list := "phone,text,sign\n13800138000," + long + ",\n13800138001,x,\n13800138002,【分店】" + long + "长长,分店\n"
	for no, want := range map[string]int64{"front": 5, "bare": 3} {
		at := checked(b, list, "content", "{text}", "sign", "公司", "sender_no", no, "auto_confirm", "true")
		if costs := get(b, at).Estimate.Costs; len(costs) != 1 || costs[0].Segments != want {
			t.Errorf("%s: %+v, want %d segments", no, costs, want)
		}
		if no == "front" {
			continue
		}
		if e := get(b, at).Estimate; e.EarliestEnd == nil {
			t.Error("a balance of 3 is not enough for 3")
		}
		b.Expect(200, "", "POST", "/api/v1/admin/senders/bare/balance", map[string]any{"change": -1, "remark": "correction"})
		if e := get(b, at).Estimate; e.EarliestEnd != nil {
			t.Error("a balance of 2 is enough for 3")
		}
		b.Expect(200, "", "POST", "/api/v1/admin/senders/bare/balance", map[string]any{"change": 1, "remark": "correction"})
		feed(b)
		texts := map[string]bool{}
		for _, claimed := range b.Take("bare", 10) {
			texts[claimed.Content+optional.Value(claimed.Sign)] = true
		}
		if len(texts) != 3 || !texts[long] || !texts["x"] || !texts[long+"长长"] {
			t.Errorf("the sender got %v", texts)
		}
		if left := *b.GetSender("bare").Balance; left != 0 {
			t.Errorf("the balance is %d", left)
		}
	}
}

// The estimate equals the later charges of claims, for each signature, signature mode and segment size of the sender, with and without limits. If a sender is
// changed after the check, the estimate uses its new configuration.
func TestAnEstimateEqualsTheCharges(t *testing.T) {
	b := apptest.New(t)
	long := strings.Repeat("长", 68)
	list := "phone,text,sign\n13800138000," + long + ",\n13800138001,x,\n13800138002," + long + ",甲\n13800138003,【门店】" + long + ",\n"
	for no, c := range map[string]struct {
		sender map[string]any
		want   int64
	}{
		"own":      {map[string]any{"sign": "六个字的签名"}, 2 + 1 + 2 + 2},
		"same":     {map[string]any{"sign": "门店"}, 2 + 1 + 2 + 2},
		"provider": {map[string]any{"sign": "六个字的签名", "sign_mode": "by_provider"}, 2 + 1 + 2 + 2},
		"none":     {map[string]any{"sign_mode": "none"}, 1 + 1 + 1 + 2},
		"small":    {map[string]any{"segment_size": 35}, 2 + 1 + 3 + 3},
		"both":     {map[string]any{"segment_size": 35, "sign": "六个字的签名"}, 3 + 1 + 3 + 3},
		"bare":     {map[string]any{"segment_size": 34, "sign_mode": "none"}, 2 + 1 + 2 + 3},
		"wide":     {map[string]any{"segment_size": 100}, 1 + 1 + 1 + 1},
	} {
		for _, isLate := range []bool{false, true} {
			for _, hasLimits := range []bool{false, true} {
				name := fmt.Sprintf("%s-%t-%t", no, isLate, hasLimits)
				body := map[string]any{"sender_no": name, "balance": 100}
				if hasLimits {
					body["limits"] = map[string]any{"per_minute": 1000}
				}
				if !isLate {
					maps.Copy(body, c.sender)
				}
				b.AddSender(body)
				b.Exec("UPDATE sender_states SET seen_at = now()")
				at := checked(b, list, "content", "{text}", "sender_no", name, "auto_confirm", "true")
				if isLate {
					b.Expect(200, "", "PATCH", "/api/v1/admin/senders/"+name, c.sender)
				}
				if costs := get(b, at).Estimate.Costs; len(costs) != 1 || costs[0].Segments != c.want {
					t.Errorf("%s: %+v, want %d segments", name, costs, c.want)
				}
				feed(b)
				b.Take(name, 10)
				if charged := 100 - *b.GetSender(name).Balance; charged != c.want {
					t.Errorf("%s: charged %d, want %d", name, charged, c.want)
				}
			}
		}
	}
}

// The limits of a sender count segments of this sender's size. Two senders with different segment sizes can therefore send different numbers of messages.
func TestTheEndOfABatchCountsTheSegmentsOfEachSender(t *testing.T) {
	b := apptest.New(t)
	for no, c := range map[string]struct {
		sender  map[string]any
		minutes time.Duration
	}{
		"signs":  {map[string]any{"sign": "六个字的签名"}, 3},
		"plain":  {nil, 1},
		"halves": {map[string]any{"segment_size": 20}, 7},
	} {
		body := map[string]any{"sender_no": no, "limits": map[string]any{"per_minute": 10}}
		maps.Copy(body, c.sender)
		b.AddSender(body)
		list := "phone,text\n"
		for i := range 20 {
			list += fmt.Sprintf("138001380%02d,%s\n", i, strings.Repeat("长", 68))
		}
		began := time.Now()
		e := get(b, checked(b, list, "content", "{text}", "sender_no", no)).Estimate
		if e.EarliestEnd == nil {
			t.Errorf("%s: no end", no)
			continue
		}
		if off := e.EarliestEnd.Sub(began.Add(c.minutes * time.Minute)); off < -2*time.Second || off > 2*time.Second+time.Since(began) {
			t.Errorf("%s: ends in %s, want %s", no, e.EarliestEnd.Sub(began), c.minutes*time.Minute)
		}
	}
}

// Shared senders with a smaller sort are a reserve: the estimate omits them, unless all senders with a larger sort are silent.
func TestAnEstimateCountsOnlyTheFirstSharedSenders(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "first", "sort": 10})
	b.AddSender(map[string]any{"sender_no": "reserve"})
	at := checked(b, numbers(4), "content", "hello", "auto_confirm", "true")
	expect := func(sender string) {
		t.Helper()
		if costs := get(b, at).Estimate.Costs; len(costs) != 1 || costs[0].SenderNo != sender || costs[0].Segments != 4 {
			t.Errorf("%+v, want 4 of %s", costs, sender)
		}
	}
	expect("first") // both are silent
	b.Exec("UPDATE sender_states st SET seen_at = now() FROM senders s WHERE s.id = st.sender_id AND s.sender_no = 'reserve'")
	expect("reserve")
	if waits := get(b, at).WaitsFor; waits != nil {
		t.Errorf("the batch waits for %s", waits.Reason)
	}
	b.Exec("UPDATE sender_states SET seen_at = now()")
	expect("first")
}

// If a text begins with its signature several times, all these signatures are removed before the text is counted and sent.
func TestAnEstimateIgnoresRepeatedSignatures(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "bare", "sign_mode": "none", "segment_size": 20, "balance": 100})
	b.Exec("UPDATE sender_states SET seen_at = now()")
	at := checked(b, "phone,text\n13800138000,【Own】【Own】"+strings.Repeat("长", 38)+"\n", "content", "{text}", "sign", "Own", "auto_confirm", "true")
	segments := get(b, at).Estimate.Costs[0].Segments
	feed(b)
	b.Take("bare", 10)
	if charged := 100 - *b.GetSender("bare").Balance; charged != segments {
		t.Errorf("charged %d, estimated %d", charged, segments)
	}
}

// A provider that adds signatures itself gets the signature of each row.
func TestTheProviderAddsTheSignatureOfARow(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "adds", "sign": "平台", "sign_mode": "by_provider"})
	list := "phone,text,sign\n13800138000,a,甲\n13800138001,b,\n13800138002,【乙】c,乙\n13800138003,【平台】d,\n"
	for sign, want := range map[string]string{
		"丁": "map[a:甲 b:丁 c:乙 【平台】d:丁]", // d has the signature of the batch, so the other signature is ordinary text
		"":  "map[a:甲 b:平台 c:乙 d:平台]",
	} {
		checked(b, list, "content", "{text}", "sign", sign, "sender_no", "adds", "auto_confirm", "true")
		feed(b)
		got := map[string]string{}
		for _, claimed := range b.Take("adds", 10) {
			got[claimed.Content] = optional.Value(claimed.Sign)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("with the signature %q of the batch: %v, want %s", sign, got, want)
		}
	}
}

// long takes two segments.
const long = "各位用户，为了给您带来更好的服务，我们的门店将于本周六上午九点在人民广场隆重开业，届时全场商品八折优惠，前一百名进店的顾客还可以领取精美礼品一份，欢迎您携家人和朋友光临，地址见官网"

// Waiting tasks count as remaining rows.
func TestTheEndOfABatchIncludesWaitingTasks(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "app", "interval_ms": 10_000})
	b.AddSender(map[string]any{"sender_no": "other"})
	b.Exec("UPDATE sender_states SET seen_at = now()")
	at := checked(b, numbers(13), "content", "hello", "sender_no", "app", "auto_confirm", "true")
	feed(b)
	for _, left := range []int64{13, 12} {
		e := get(b, at).Estimate
		if e == nil || e.EarliestEnd == nil || len(e.Costs) != 1 || e.Costs[0].Segments != left {
			t.Fatalf("%+v, want %d segments", e, left)
		}
		if takes, want := time.Until(*e.EarliestEnd), time.Duration(left-1)*10*time.Second; takes > want+time.Second || takes < want-5*time.Second {
			t.Errorf("ends in %s, want %s", takes, want)
		}
		b.Claim("app", 1)
	}
}

// An end is predicted from a measured rate only while the batch continues. A batch of another company has its own rate.
func TestABatchThatDoesNotContinueHasNoPredictedEnd(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	for no, company := range map[string]string{"app": "default", "acmes": "acme"} {
		b.AddSender(map[string]any{"sender_no": no, "is_shared": false})
		b.AddRoute(company, no, 1)
	}
	b.Exec("UPDATE sender_states SET seen_at = now()")
	at := checked(b, numbers(20), "content", "hello", "auto_confirm", "true")
	others := checked(b, numbers(20), "content", "hello", "auto_confirm", "true", "company_no", "acme")
	feed(b)
	expect := func(at, waits string, likely time.Duration) {
		t.Helper()
		got := get(b, at)
		reason := ""
		if got.WaitsFor != nil {
			reason = string(got.WaitsFor.Reason)
		}
		e := got.Estimate
		if reason != waits || e == nil || (e.EarliestEnd == nil) != (waits != "") || (e.LikelyEnd == nil) != (likely == 0) {
			t.Fatalf("waits for %q, want %q; %+v", reason, waits, e)
		}
		if likely > 0 && (time.Until(*e.LikelyEnd) < likely-time.Minute || time.Until(*e.LikelyEnd) > likely+time.Minute) {
			t.Errorf("ends %s, want in %s", e.LikelyEnd, likely)
		}
	}
	expectNoEnd := func(at string) {
		t.Helper()
		if e := get(b, at).Estimate; e.EarliestEnd != nil || e.LikelyEnd != nil {
			t.Errorf("a batch that is held ends at %v, %v", e.EarliestEnd, e.LikelyEnd)
		}
	}
	expect(at, "", 0) // nothing has been sent yet
	for _, no := range []string{"app", "acmes"} {
		for _, task := range b.Claim(no, 2) {
			b.Report(task.TaskID, no, 2, nil)
		}
	}
	feed(b)
	b.Exec("UPDATE batches SET started_at = now() - interval '10 minutes'")
	expect(at, "", 90*time.Minute) // 18 rows, 5 minutes each
	b.Exec("UPDATE sender_states st SET seen_at = now() - interval '2 minutes' FROM senders s WHERE s.id = st.sender_id AND s.sender_no = 'app'")
	expect(at, "no_sender", 0)
	expect(others, "", 90*time.Minute)
	b.Exec("UPDATE sender_states SET seen_at = now()")
	get(b, at, "pause")
	expectNoEnd(at)
	expect(others, "", 90*time.Minute)
	b.Exec("UPDATE batch_acts SET at = now() - interval '8 minutes' WHERE act = 'paused'")
	get(b, at, "resume")
	expect(at, "", 18*time.Minute) // two of ten minutes without the pause
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/acme", map[string]any{"status": "off"})
	expectNoEnd(others)
}

// If the limits of the senders with the largest sort are used up, the senders with the next sort receive the remaining rows. The end is then earlier, and each
// sender has its own costs. A sender that merely waits for its interval leaves no rows to other senders. A silent sender receives no rows.
func TestTheEstimateOfABatchIncludesSendersOfTheNextSort(t *testing.T) {
	b := apptest.New(t)
	limits := func(most int) map[string]any { return map[string]any{"limits": map[string]any{"per_day": most}} }
	for _, c := range []struct {
		name    string
		senders []map[string]any // in the order of their sort
		takes   time.Duration    // negative: no end
		costs   string
	}{
		{"limit", []map[string]any{limits(5), {}}, 0, "5 6"},
		{"money", []map[string]any{{"balance": 5}, {"interval_ms": 10_000}}, 50 * time.Second, "5 6"},
		{"interval", []map[string]any{{"interval_ms": 10_000}, {}}, 100 * time.Second, "11"},
		{"both", []map[string]any{{"interval_ms": 1000, "limits": map[string]any{"per_day": 5}}, {}}, 5 * time.Second, "5 6"},
		{"three", []map[string]any{limits(5), limits(4), {"interval_ms": 10_000}}, 10 * time.Second, "5 4 2"},
		{"later", []map[string]any{limits(5), limits(4)}, 24 * time.Hour, "10 1"},
		{"enough", []map[string]any{limits(11), {}}, 0, "11"},
		{"poor", []map[string]any{{"balance": 5}, {"balance": 5}}, -1, "5 6"},
		{"silent", []map[string]any{limits(5), {"sender_no": "silent"}}, 48 * time.Hour, "11"},
	} {
		b.AddCompany(c.name, 1)
		for i, body := range c.senders {
			no := fmt.Sprintf("%s-%d", c.name, i)
			if body["sender_no"] == nil {
				body["sender_no"] = no
			}
			body["is_shared"] = false
			b.AddSender(body)
			b.AddRouteWith(map[string]any{"company_no": c.name, "sender_no": body["sender_no"], "sort": 10 - i})
		}
		b.Exec("UPDATE sender_states st SET seen_at = CASE WHEN s.sender_no = 'silent' THEN NULL ELSE now() END FROM senders s WHERE s.id = st.sender_id")
		at := checked(b, numbers(11), "content", "hello", "company_no", c.name)
		began := time.Now()
		e := get(b, at).Estimate
		var costs []string
		for _, cost := range e.Costs {
			costs = append(costs, fmt.Sprint(cost.Segments))
		}
		if text := strings.Join(costs, " "); text != c.costs {
			t.Errorf("%s: costs %s, want %s", c.name, text, c.costs)
		}
		switch {
		case (e.EarliestEnd == nil) != (c.takes < 0):
			t.Errorf("%s: ends at %v, want %s", c.name, e.EarliestEnd, c.takes)
		case e.EarliestEnd != nil:
			if off := e.EarliestEnd.Sub(began.Add(c.takes)); off < -time.Second || off > 2*time.Second+time.Since(began) {
				t.Errorf("%s: ends in %s, want %s", c.name, e.EarliestEnd.Sub(began), c.takes)
			}
		}
	}
}

// The first rows contain no row to a country. The segments of this country are then counted from all rows, once at the end of the check.
func TestTheCheckCountsSegmentsOfCountriesThatOnlyLaterRowsHave(t *testing.T) {
	b := apptest.New(t)
	b.AddCountry("CN", "86", nil)
	b.AddCountry("SG", "65", nil)
	b.AddSender(map[string]any{"sender_no": "signs", "sign": "六个字的签名"})
	b.AddSender(map[string]any{"sender_no": "small", "segment_size": 25})
	b.Exec("UPDATE sender_states SET seen_at = now()")
	list := strings.Builder{}
	list.WriteString("phone,text\n")
	for i := range 1000 {
		fmt.Fprintf(&list, "138%08d,%s\n", i, strings.Repeat("长", 68))
	}
	list.WriteString("+6591234567," + strings.Repeat("长", 68) + "\n")
	for no, want := range map[string]int64{"signs": 2002, "small": 3003} {
		at := checked(b, list.String(), "content", "{text}", "sender_no", no)
		b.Exec("UPDATE batch_rows SET content = 'x'") // the counts must come from the check, and not from a second read of the rows
		if costs := get(b, at).Estimate.Costs; len(costs) != 1 || costs[0].Segments != want {
			t.Errorf("%s: %+v, want %d segments", no, costs, want)
		}
	}
}

// Rows without segments, as in a damaged list, still have an estimate.
func TestRowsWithoutSegmentsHaveAnEstimate(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "plain"})
	b.Exec("UPDATE sender_states SET seen_at = now()")
	at := checked(b, numbers(2), "content", "hello", "sender_no", "plain")
	b.Exec("UPDATE batch_rows SET segments = 0")
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/plain", map[string]any{"segment_size": 2}) // the estimate counts the rows again because the segment size has changed
	if e := get(b, at).Estimate; len(e.Costs) != 1 || e.Costs[0].Segments != 2 || e.EarliestEnd == nil {
		t.Errorf("%+v", e)
	}
}

// The same senders can have different orders in different countries. The costs of each country cover all of its rows, and the end considers every sender.
func TestAnEstimateSupportsDifferentOrdersOfSendersPerCountry(t *testing.T) {
	b := apptest.New(t)
	b.AddCountry("CN", "86", nil)
	b.AddCountry("SG", "65", nil)
	for company, sorts := range map[string]map[string]int{ // sort of each sender for SG; for CN, the order is a, b, c
		"reversed": {"c": 2, "b": 1},
		"equal":    {"c": 2, "b": 2},
		"one":      {"c": 1},
	} {
		b.AddCompany(company, 1)
		for i, name := range []string{"a", "b", "c"} {
			no := company + "-" + name
			b.AddSender(map[string]any{"sender_no": no, "is_shared": false, "limits": map[string]any{"per_day": 4}})
			b.AddRouteWith(map[string]any{"company_no": company, "sender_no": no, "country_no": "CN", "sort": 10 - i})
			if sort := sorts[name]; sort > 0 {
				b.AddRouteWith(map[string]any{"company_no": company, "sender_no": no, "country_no": "SG", "sort": sort})
			}
		}
		b.Exec("UPDATE sender_states SET seen_at = now()")
		e := get(b, checked(b, numbers(8)+"+6591234567\n+6591234568\n", "content", "hello", "company_no", company)).Estimate
		sum := int64(0)
		for _, cost := range e.Costs {
			sum += cost.Segments
		}
		if sum < 9 || sum > 11 || len(e.Costs) < 2 { // each cost is rounded
			t.Errorf("%s: costs %+v of 10 messages", company, e.Costs)
		}
		if e.EarliestEnd == nil || time.Until(*e.EarliestEnd) > time.Minute {
			t.Errorf("%s: ends at %v", company, e.EarliestEnd)
		}
	}
}

// germans returns n rows with numbers of Germany, which can be appended to other rows.
func germans(n int) string {
	var list strings.Builder
	for i := range n {
		fmt.Fprintf(&list, "+4915123%06d\n", i)
	}
	return list.String()
}

// costsOf returns the costs of an estimate as text, by sender number.
func costsOf(costs []api.BatchCost) string {
	of := map[string]int64{}
	for _, cost := range costs {
		of[cost.SenderNo] = cost.Segments
	}
	return strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(of), "map["), "]")
}

// The senders of one country send nothing to another country. Each country has its own end and costs, and the batch ends with the last country.
func TestAnEstimateSeparatesTheSendersOfDifferentCountries(t *testing.T) {
	b := apptest.New(t)
	b.AddCountry("CN", "86", nil)
	b.AddCountry("DE", "49", nil)
	for _, c := range []struct {
		name  string
		third map[string]any // the sender of DE
		takes time.Duration  // negative: no end
		costs string
	}{
		{"free", nil, 0, "free-1:60 free-2:40 free-3:300"},
		{"daily", map[string]any{"limits": map[string]any{"per_day": 50}}, 5 * 24 * time.Hour, "daily-1:60 daily-2:40 daily-3:300"},
		{"slow", map[string]any{"interval_ms": 60_000}, 299 * time.Minute, "slow-1:60 slow-2:40 slow-3:300"},
		{"poor", map[string]any{"balance": 10}, -1, "poor-1:60 poor-2:40 poor-3:300"},
		{"off", map[string]any{"status": "off"}, -1, "off-1:60 off-2:40"},
	} {
		b.AddCompany(c.name, 1)
		for i, body := range []map[string]any{{}, {"limits": map[string]any{"per_day": 40}}, c.third} {
			body = maps.Clone(body)
			if body == nil {
				body = map[string]any{}
			}
			body["sender_no"], body["is_shared"] = fmt.Sprintf("%s-%d", c.name, i+1), false
			status := body["status"]
			delete(body, "status")
			b.AddSender(body)
			b.AddRouteWith(map[string]any{
				"company_no": c.name, "sender_no": body["sender_no"], "country_no": []string{"CN", "CN", "DE"}[i], "sort": []int{10, 20, 10}[i],
			})
			if status != nil {
				b.Expect(200, "", "PATCH", fmt.Sprintf("/api/v1/admin/senders/%v", body["sender_no"]), map[string]any{"status": status})
			}
		}
		b.Exec("UPDATE sender_states SET seen_at = now()")
		began := time.Now()
		e := get(b, checked(b, numbers(100)+germans(300), "content", "hello", "company_no", c.name)).Estimate
		if costs := costsOf(e.Costs); costs != c.costs {
			t.Errorf("%s: costs %s, want %s", c.name, costs, c.costs)
		}
		switch {
		case (e.EarliestEnd == nil) != (c.takes < 0):
			t.Errorf("%s: ends at %v, want %s", c.name, e.EarliestEnd, c.takes)
		case e.EarliestEnd != nil:
			if off := e.EarliestEnd.Sub(began.Add(c.takes)); off < -time.Second || off > 2*time.Second+time.Since(began) {
				t.Errorf("%s: ends in %s, want %s", c.name, e.EarliestEnd.Sub(began), c.takes)
			}
		}
	}
}

// A sender of several countries sends to all of them. Its limits count only once: each country gets a part of the limits, in proportion to its rows.
func TestAnEstimateDividesASenderAmongItsCountries(t *testing.T) {
	b := apptest.New(t)
	b.AddCountry("CN", "86", nil)
	b.AddCountry("DE", "49", nil)
	for _, c := range []struct {
		name   string
		both   map[string]any // sender for both countries, with a larger sort than the sender for CN
		others bool           // each country has a second sender, to which the first sender leaves rows
		takes  time.Duration
		costs  string
	}{
		{"alone", map[string]any{"interval_ms": 60_000}, false, 399 * time.Minute, "alone-both:400"},
		{"reserve", map[string]any{"limits": map[string]any{"per_day": 40}}, true, 0, "reserve-both:40 reserve-cn:90 reserve-de:270"},
	} {
		b.AddCompany(c.name, 1)
		c.both["sender_no"], c.both["is_shared"] = c.name+"-both", false
		b.AddSender(c.both)
		for _, country := range []string{"CN", "DE"} {
			b.AddRouteWith(map[string]any{"company_no": c.name, "sender_no": c.name + "-both", "country_no": country, "sort": 20})
			if c.others {
				no := c.name + "-" + strings.ToLower(country)
				b.AddSender(map[string]any{"sender_no": no, "is_shared": false})
				b.AddRouteWith(map[string]any{"company_no": c.name, "sender_no": no, "country_no": country, "sort": 10})
			}
		}
		b.Exec("UPDATE sender_states SET seen_at = now()")
		began := time.Now()
		e := get(b, checked(b, numbers(100)+germans(300), "content", "hello", "company_no", c.name)).Estimate
		if costs := costsOf(e.Costs); costs != c.costs {
			t.Errorf("%s: costs %s, want %s", c.name, costs, c.costs)
		}
		if e.EarliestEnd == nil {
			t.Errorf("%s: no end", c.name)
		} else if off := e.EarliestEnd.Sub(began.Add(c.takes)); off < -time.Second || off > 2*time.Second+time.Since(began) {
			t.Errorf("%s: ends in %s, want %s", c.name, e.EarliestEnd.Sub(began), c.takes)
		}
	}
}

// If the senders of two countries include a common sender, they cannot send more than their limits together allow: three senders with a limit of 10 messages do
// not send 31.
func TestCountriesThatShareASenderShareItsLimits(t *testing.T) {
	b := apptest.New(t)
	b.AddCountry("CN", "86", nil)
	b.AddCountry("DE", "49", nil)
	for no, countries := range map[string][]string{"both": {"CN", "DE"}, "cn": {"CN"}, "de": {"DE"}} {
		b.AddSender(map[string]any{"sender_no": no, "is_shared": false, "balance": 10})
		for _, country := range countries {
			b.AddRouteWith(map[string]any{"company_no": "default", "sender_no": no, "country_no": country})
		}
	}
	b.Exec("UPDATE sender_states SET seen_at = now()")
	for rows, canEnd := range map[int]bool{30: true, 32: false} {
		e := get(b, checked(b, numbers(rows/2)+germans(rows/2), "content", "hello")).Estimate
		if (e.EarliestEnd != nil) != canEnd {
			t.Errorf("%d rows: ends at %v", rows, e.EarliestEnd)
		}
	}
}

// A batch runs, but its remaining rows go to a country whose only sender is silent. The batch waits for a sender and has no predicted end. Some of these rows
// are tasks, and some are not tasks yet.
func TestABatchWaitsForASenderOfItsRemainingCountry(t *testing.T) {
	b := apptest.New(t)
	b.AddCountry("CN", "86", nil)
	b.AddCountry("DE", "49", nil)
	for no, country := range map[string]string{"cn": "CN", "de": "DE"} {
		b.AddSender(map[string]any{"sender_no": no, "is_shared": false})
		b.AddRouteWith(map[string]any{"company_no": "default", "sender_no": no, "country_no": country})
	}
	b.Exec("UPDATE sender_states SET seen_at = now()")
	b.Exec("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused by the test'; END $$")
	b.Exec("CREATE TRIGGER refuse BEFORE INSERT ON messages FOR EACH ROW WHEN (NEW.country_no = 'DE') EXECUTE FUNCTION refuse()")
	at := checked(b, numbers(100)+germans(30), "content", "hello", "auto_confirm", "true")
	expect := func(waits, costs string, hasEnd bool) {
		t.Helper()
		got := get(b, at)
		reason := ""
		if got.WaitsFor != nil {
			reason = string(got.WaitsFor.Reason)
		}
		if e := got.Estimate; reason != waits || costsOf(e.Costs) != costs || (e.EarliestEnd != nil) != hasEnd {
			t.Errorf("waits for %q, ends at %v, costs %s; want %q, %t, %s", reason, e.EarliestEnd, costsOf(e.Costs), waits, hasEnd, costs)
		}
	}
	send := func(n int) {
		t.Helper()
		for _, task := range b.Take("cn", n) {
			b.Report(task.TaskID, "cn", 2, nil)
		}
		if _, err := b.App.History.Fold(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.App.Batches.Feed(t.Context()); err == nil {
		t.Fatal("all rows are tasks")
	}
	send(94)
	expect("", "cn:6 de:30", true)
	b.Exec("UPDATE sender_states st SET seen_at = now() - interval '2 minutes' FROM senders s WHERE s.id = st.sender_id AND s.sender_no = 'de'")
	expect("", "cn:6 de:30", false) // some but not all rows can be sent
	send(6)
	expect("no_sender", "de:30", false) // the remaining rows are not tasks yet
	b.Exec("DROP TRIGGER refuse ON messages")
	feed(b)
	expect("no_sender", "de:30", false) // the remaining rows are tasks
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/de", map[string]any{"status": "off"})
	expect("no_sender", "", false)
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/de", map[string]any{"status": "on"})
	b.Exec("UPDATE sender_states SET seen_at = now()")
	expect("", "de:30", true)
}
