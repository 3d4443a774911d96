package batch_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// preview reads the preview of a row.
func preview(b *apptest.Bundle, at string, row int) api.BatchPreview {
	b.T.Helper()
	return apptest.Decode[api.BatchPreview](b.T, b.Expect(200, "", "GET", fmt.Sprintf("%s/preview?row=%d", at, row), nil))
}

// await waits until a batch has the given status and number of successful rows.
func await(b *apptest.Bundle, at, status string, success int64) {
	b.T.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		feed(b)
		got := get(b, at)
		if string(got.Status) == status && got.Counts.Success == success {
			return
		}
		if time.Now().After(end) {
			b.T.Fatalf("%s %+v", got.Status, got.Counts)
		}
	}
}

// S4.8: a batch of e-mails is checked, previewed, confirmed, paused and sent like a batch of short messages. Each row has its own subject and texts. Values are
// plain text: they are escaped in HTML and cannot add a line break to the subject.
func TestABatchOfEmailIsCheckedPreviewedAndSent(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	box := b.AddMailbox("mail")
	list := "Name,E-Mail,Level\n" +
		"O'Brien <b>,ann@example.com,VIP & more\n" +
		"\"Bob\r\nBcc: evil@example.com\",bob@example.com,1\n" +
		"Cid,no address,1\n" +
		"Dan,,1\n" +
		"Eve,ANN@example.com,1\n" +
		",fay@example.com,1\n" +
		"${what} {Level},\u200bgus@example.com ,2\n"
	at := checked(b, list, "channel", "email", "subject", "Hi {Name}!", "content", "Dear {Name}, level {Level}, ${x,y}.", "html", "<p>{Name} <b>{Level}</b></p>")
	got := get(b, at)
	expect(b, got, "ready", "7 rows, 3 valid, 3 invalid, 1 duplicate, 3 waiting")
	if *got.Channel != "email" || *got.Subject != "Hi {Name}!" || got.PhoneColumn != "E-Mail" || got.Dedup != "address" || got.Segments != 3 {
		t.Errorf("%+v", got)
	}
	want := `2 ann@example.com "Dear O'Brien <b>, level VIP & more, ${x,y}." waiting
3 bob@example.com "Dear Bob\r\nBcc: evil@example.com, level 1, ${x,y}." waiting
4 no address "Dear Cid, level 1, ${x,y}." invalid 1: address is not an e-mail address
5  "Dear Dan, level 1, ${x,y}." invalid 1: address is required
6 ANN@example.com "Dear Eve, level 1, ${x,y}." duplicate 5: address repeats row 2
7 fay@example.com "" invalid 2: content lacks parameters that the template needs: Name
8 gus@example.com "Dear ${what} {Level}, level 2, ${x,y}." waiting`
	if got := strings.ReplaceAll(rows(b, at, ""), "\u200b", "?"); got != want {
		t.Errorf("rows:\n%s\nwant\n%s", got, want)
	}
	errors := b.Call("GET", at+"/errors.csv", nil).Raw
	if !strings.Contains(errors, "row,address,content,code,remark") || strings.Count(errors, "@example.com") != 2 {
		t.Errorf("%s", errors)
	}
	for row, want := range map[int][3]string{
		2: {"Hi O'Brien <b>!", "Dear O'Brien <b>, level VIP & more, ${x,y}.", "<p>O&#39;Brien &lt;b&gt; <b>VIP &amp; more</b></p>"},
		3: {"Hi Bob Bcc: evil@example.com!", "Dear Bob\r\nBcc: evil@example.com, level 1, ${x,y}.", "<p>Bob\r\nBcc: evil@example.com <b>1</b></p>"},
		8: {"Hi ${what} {Level}!", "Dear ${what} {Level}, level 2, ${x,y}.", "<p>${what} {Level} <b>2</b></p>"},
	} {
		p := preview(b, at, row)
		if *p.Subject != want[0] || *p.FinalContent != want[1] || *p.HTML != want[2] || len(p.Senders) != 1 || p.Senders[0].SenderNo != "mail" {
			t.Errorf("preview of row %d: %q %q %q %+v", row, *p.Subject, *p.FinalContent, *p.HTML, p.Senders)
		}
	}
	if p := preview(b, at, 4); p.FinalContent != nil || *p.Code != 1 {
		t.Errorf("%+v", p)
	}
	if e := get(b, at).Estimate; len(e.Costs) != 1 || e.Costs[0].SenderNo != "mail" || e.Costs[0].Segments != 3 {
		t.Errorf("%+v", e)
	}
	get(b, at, "confirm")
	feed(b)
	get(b, at, "pause")
	if n := b.Count("SELECT count(*) FROM queue WHERE due_at = held_due_at() AND batch_id IS NOT NULL"); n != 3 {
		t.Errorf("%d tasks are held", n)
	}
	get(b, at, "resume")
	b.App.Pusher.Start()
	await(b, at, "finished", 3)
	for to, want := range map[string][3]string{
		"ann@example.com": {"Hi O'Brien <b>!", "Dear O'Brien <b>, level VIP & more, ${x,y}.", "<p>O&#39;Brien &lt;b&gt; <b>VIP &amp; more</b></p>"},
		"bob@example.com": {"Hi Bob Bcc: evil@example.com!", "Dear Bob\nBcc: evil@example.com, level 1, ${x,y}.", "<p>Bob\nBcc: evil@example.com <b>1</b></p>"},
		"gus@example.com": {"Hi ${what} {Level}!", "Dear ${what} {Level}, level 2, ${x,y}.", "<p>${what} {Level} <b>2</b></p>"},
	} {
		if got := box.Of(to); got != want {
			t.Errorf("%s: %q, want %q", to, got, want)
		}
	}
	if header, _, _ := strings.Cut(box.Raw("bob@example.com"), "\r\n\r\n"); strings.Contains(header, "\r\nBcc:") {
		t.Errorf("a value made a header: %s", header)
	}
}

// On every channel, a batch can take its rows from the contacts of a tag, because the address on the channel is a field of the contact or its user id. The
// placeholders of a notification template are filled with the fields and attributes of each contact. The provider also gets these values as parameters.
func TestABatchOfATagSendsOnTheChannelOfItsAddresses(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	box, oa := b.AddMailbox("mail"), apptest.NewProvider(t)
	oa.Says(200, `{"code":0}`)
	b.AddSender(map[string]any{"sender_no": "oa", "channel": "oa", "kind": "oa", "config": map[string]any{
		"url": oa.URL, "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	}})
	for channel, body := range map[string]map[string]any{
		"email": {"title": "${contact.name}, ${等级}", "content": "Dear ${name}", "html": "<i>${contact.name}</i>"},
		"oa":    {"title": "t", "content": "${name} ${contact.等级}", "external_id": "T1"},
	} {
		b.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/77/"+channel, body)
	}
	b.PutContacts(
		map[string]any{"user_id": "ann", "name": "A<nn>", "email": "ann@example.com", "attributes": map[string]any{"等级": "VIP"}},
		map[string]any{"user_id": "bob", "name": "Bob", "phone": "13800138000", "attributes": map[string]any{"等级": "1"}},
	)
	b.Expect(200, "", "PUT", "/api/v1/tags/vip", map[string]any{})
	b.Expect(200, "", "POST", "/api/v1/tags/vip/contacts", map[string]any{"add": []string{"ann", "bob"}})
	b.App.Pusher.Start()
	mail := createJSON(b, map[string]any{"name": "n", "tag": "vip", "channel": "email", "biz_type": 77, "auto_confirm": true})
	check(b)
	want := `1 ann@example.com "Dear A<nn>" waiting
2  "Dear Bob" invalid 1: address is required`
	if got := rows(b, mail, ""); got != want {
		t.Errorf("rows:\n%s\nwant\n%s", got, want)
	}
	if got := get(b, mail); *got.BizType != 77 || *got.Subject != "${contact.name}, ${等级}" || got.Content != "Dear ${name}" || got.PhoneColumn != "email" {
		t.Errorf("%+v", got)
	}
	feed(b) // reads the contacts again
	check(b)
	await(b, mail, "finished", 1)
	if got := box.Of("ann@example.com"); got != [3]string{"A<nn>, VIP", "Dear A<nn>", "<i>A&lt;nn&gt;</i>"} {
		t.Errorf("%q", got)
	}
	list := createJSON(b, map[string]any{"name": "n", "channel": "oa", "biz_type": 77, "auto_confirm": true, "rows": []any{
		map[string]any{"工号": "ann", "name": "Ann", "等级": "VIP"}, map[string]any{"工号": "bob", "name": "Bob", "等级": "1"},
	}})
	check(b)
	await(b, list, "finished", 2)
	seen := strings.Join(oa.Seen(), "\n")
	for _, part := range []string{`"to":"ann"`, `"user_id":"ann"`, `"content":"Ann VIP"`, `"content":"Bob 1"`, `"contact.等级":"VIP"`, `"template_id":"T1"`} {
		if !strings.Contains(seen, part) {
			t.Errorf("%s is missing in %s", part, seen)
		}
	}
}

// If the text of a batch has no placeholders, it is stored once for all rows.
func TestATextWithoutPlaceholdersIsStoredOnce(t *testing.T) {
	b := apptest.New(t)
	at := checked(b, "email\na@example.com\nb@example.com\n", "channel", "email", "subject", "s", "content", "${,} "+strings.Repeat("长", 3000), "auto_confirm", "true")
	feed(b)
	if n := b.Count("SELECT count(*) FROM messages m JOIN renderings r ON r.id = m.rendering_id WHERE m.contact_values IS NULL AND char_length(m.content) = 200 AND char_length(r.content) = 3005 AND NOT r.is_template"); n != 2 {
		t.Errorf("%d tasks:\n%s", n, rows(b, at, ""))
	}
	if p := preview(b, at, 2); len([]rune(*p.FinalContent)) != 3005 || !strings.HasPrefix(*p.FinalContent, "${,} 长") || p.Segments != 1 {
		t.Errorf("%+v", p)
	}
}

// A requeue sends the failed messages of a batch on the channel of the batch, even if the channel is not sms and the batch names its only sender.
func TestARequeueUsesTheChannelOfTheBatch(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "one", "channel": "email"})
	b.AddSender(map[string]any{"sender_no": "two", "channel": "email"})
	for name, fields := range map[string][]string{"any": {}, "only": {"sender_no", "two"}} {
		at := checked(b, "email,n\na@example.com,1\nb@example.com,2\n", append([]string{"channel", "email", "subject", "s {n}", "content", "x {n}", "auto_confirm", "true"}, fields...)...)
		feed(b)
		for range 2 {
			claimed := b.Claim("two", 10)
			if len(claimed) != 2 {
				t.Fatalf("%s: %d are claimed", name, len(claimed))
			}
			for _, one := range claimed {
				b.Report(one.TaskID, "two", 3, nil)
			}
			feed(b)
			expect(b, get(b, at), "finished", "2 rows, 2 valid, 2 failed")
			if r := apptest.Decode[api.BatchRequeued](t, b.Expect(200, "", "POST", at+"/requeue", nil)); r.Count != 2 || len(r.Skipped) != 0 {
				t.Errorf("%s: %+v", name, r)
			}
			if _, err := b.App.Jobs.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, one := range b.Claim("two", 10) {
			b.Report(one.TaskID, "two", 2, nil)
		}
	}
	b.AddSender(map[string]any{"sender_no": "sms"})
	for field, fields := range map[string][]string{"sender_no": {"sender_no", "sms"}} {
		if a := form(b, 422, apptest.Form("file", "", "email\na@example.com\n", append([]string{"name", "n", "channel", "email", "subject", "s", "content", "x"}, fields...)...)); a.Fields() != field {
			t.Errorf("%s", a.Raw)
		}
	}
}

func TestOnlyRowsWithEqualValuesAreDuplicates(t *testing.T) {
	b := apptest.New(t)
	at := checked(b, "email,n,m\na@example.com,1,1\na@example.com,1,2\nA@example.com,1,1\n", "channel", "email", "subject", "{m}", "content", "{n}", "dedup", "row")
	expect(b, get(b, at), "ready", "3 rows, 2 valid, 1 duplicate, 2 waiting")
}

func TestMailAddressesIgnoreCaseInAnyLocale(t *testing.T) {
	b := apptest.New(t)
	at := checked(b, "email\na1@exämple.com\na1@EXÄMPLE.com\nA1@Exämple.COM\na2@exämple.com\n", "channel", "email", "subject", "s", "content", "x")
	expect(b, get(b, at), "ready", "4 rows, 2 valid, 2 duplicate, 2 waiting")
}

func TestTheErrorForAnInvalidBatchOfAChannelNamesTheField(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/5/email", map[string]any{"title": "t", "content": "c", "enabled": false})
	b.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/77/email", map[string]any{"title": "${contact.who}", "content": "c"})
	b.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{"template_no": "T1", "template_name": "n", "template_content": "{who}"})
	for name, c := range map[string]struct {
		fields []string
		field  string
	}{
		"no channel":             {[]string{"channel", "fax", "content", "x"}, "channel"},
		"no subject":             {[]string{"channel", "email", "content", "x"}, "subject"},
		"no text":                {[]string{"channel", "email", "subject", "x"}, "content"},
		"a break in a subject":   {[]string{"channel", "email", "subject", "x\r\nBcc: y@example.com", "content", "x"}, "subject"},
		"a column":               {[]string{"channel", "email", "subject", "x", "content", "{who}"}, "content"},
		"columns of all texts":   {[]string{"channel", "email", "subject", "{who}", "content", "{other}", "html", "{when}"}, "subject,html"},
		"a column of a template": {[]string{"channel", "email", "biz_type", "77"}, "biz_type"},
		"a language":             {[]string{"channel", "email", "subject", "x", "content", "x", "language", "en"}, "language"},
		"an address column":      {[]string{"channel", "email", "subject", "x", "content", "x", "address_column", "who"}, "address_column"},
		"a phone column":         {[]string{"channel", "email", "subject", "x", "content", "x", "phone_column", "email"}, "phone_column"},
		"no address column":      {[]string{"channel", "dingtalk", "content", "x"}, "address_column"},
		"a template":             {[]string{"channel", "email", "template_no", "x"}, "template_no"},
		"no template":            {[]string{"channel", "email", "biz_type", "6"}, "biz_type"},
		"a template that is off": {[]string{"channel", "email", "biz_type", "5"}, "biz_type"},
		"two texts":              {[]string{"channel", "email", "biz_type", "5", "content", "x"}, "biz_type"},
		"two subjects":           {[]string{"channel", "email", "biz_type", "5", "subject", "x"}, "biz_type"},
		"two texts in HTML":      {[]string{"channel", "email", "biz_type", "5", "html", "x"}, "biz_type"},
		"HTML of others":         {[]string{"channel", "oa", "content", "x", "html", "x", "address_column", "email"}, "html"},
		"WeChat":                 {[]string{"channel", "wechat", "content", "x"}, "biz_type,address_column"},
		"a subject of SMS":       {[]string{"content", "x", "subject", "x"}, "subject,phone_column"},
		"HTML of SMS":            {[]string{"content", "x", "html", "x"}, "html,phone_column"},
		"a long SMS":             {[]string{"content", strings.Repeat("x", 1025)}, "content,phone_column"},
		"a template of SMS":      {[]string{"template_no", "T1", "phone_column", "email"}, "template_no"},
		"a language of SMS":      {[]string{"content", "x", "language", "en"}, "language,phone_column"},
		"a type of SMS":          {[]string{"biz_type", "5"}, "biz_type,phone_column"},
		"a column of SMS":        {[]string{"content", "x", "address_column", "email"}, "address_column"},
	} {
		if a := form(b, 422, apptest.Form("file", "", "email,other\na@example.com,1\n", append([]string{"name", "n"}, c.fields...)...)); a.Fields() != c.field {
			t.Errorf("%s: %s", name, a.Raw)
		} else if other := map[string]string{"two texts": "content", "two subjects": "subject", "two texts in HTML": "html"}[name]; !strings.Contains(a.Raw, other) {
			t.Errorf("%s does not name %s: %s", name, other, a.Raw)
		} else if isOfAnother := slices.Contains([]string{"a subject of SMS", "HTML of SMS", "a type of SMS"}, name); isOfAnother && !strings.Contains(a.Raw, "channel=sms") {
			t.Errorf("%s does not name the channel: %s", name, a.Raw)
		}
	}
	if n := b.Count("SELECT count(*) FROM renderings") + b.Count("SELECT count(*) FROM batches"); n != 0 {
		t.Errorf("%d are stored", n)
	}
}

// A company cannot read the batches, contacts and templates of other companies, on any channel.
func TestCompaniesDoNotSeeBatchesOfOthersOnAnyChannel(t *testing.T) {
	b := apptest.New(t)
	acme, beta := b.AddCompany("acme", 1), b.AddCompany("beta", 1)
	b.Expect(200, "", "PUT", "/api/v1/tags/vip", map[string]any{}, acme...)
	body := map[string]any{"name": "n", "channel": "email", "subject": "s", "content": "x", "tag": "vip"}
	at := createJSON(b, body, acme...)
	if a := b.Expect(422, "request.invalid", "POST", path, body, beta...); a.Fields() != "tag" {
		t.Errorf("%s", a.Raw)
	}
	b.Expect(404, "batch.not_found", "GET", at+"/preview", nil, beta...)
}

// A batch has the signature of its notification template, unless the batch or a row has its own signature.
func TestABatchHasTheSignatureOfItsNotificationTemplate(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/77/oa", map[string]any{"title": "t", "content": "${name}", "sign": "公司"})
	for want, body := range map[string]map[string]any{"公司": {}, "own": {"sign": "own"}} {
		body["name"], body["channel"], body["biz_type"] = "n", "oa", 77
		body["rows"] = []any{map[string]any{"user_id": "u1", "name": "x"}}
		if got := get(b, createJSON(b, body)); got.Sign == nil || *got.Sign != want {
			t.Errorf("%v has the signature %v, want %s", body, got.Sign, want)
		}
	}
}
