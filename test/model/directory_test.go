package model

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// This file contains the steps of operators: changes of companies, senders, routes, templates and default contents.

// oneOf draws one of several values.
func oneOf[T any](t *rapid.T, label string, values ...T) T {
	return values[rapid.IntRange(0, len(values)-1).Draw(t, label)]
}

// someOf draws one of values. It skips the step if values is empty.
func someOf[T any](t *rapid.T, label string, values []T) T {
	if len(values) == 0 {
		t.Skip("nothing to draw: ", label)
	}
	return oneOf(t, label, values...)
}

// optional draws nil or one of values. nil is twice as likely as a value.
func optional[T any](t *rapid.T, label string, values ...T) *T {
	n := rapid.IntRange(0, 3*len(values)-1).Draw(t, label)
	if n >= len(values) {
		return nil
	}
	return &values[n]
}

func (q *sequence) companies() []*company {
	return slices.DeleteFunc(slices.Clone(q.world.companies), func(c *company) bool { return c.gone })
}

func (q *sequence) createCompany(t *rapid.T, weight float64) *company {
	c := &company{no: q.name("company"), weight: weight, caps: map[string]caps{}}
	body := map[string]any{"company_no": c.no, "name": c.no, "weight": weight}
	if countries := optional(t, "countries of the company", []string{"CN", "DE"}); countries != nil {
		c.countries, body["countries"] = *countries, *countries
	}
	q.admin(t, http.MethodPost, "/api/v1/admin/companies", body)
	q.world.companies = append(q.world.companies, c)
	return c
}

func (q *sequence) createUser(t *rapid.T, c *company, top int) {
	name := q.name("user")
	q.admin(t, http.MethodPost, "/api/v1/admin/users", map[string]any{"username": name, "role": "submit", "company_no": c.no, "top_priority": top})
	a := q.admin(t, http.MethodPost, "/api/v1/admin/users/"+name+"/keys", map[string]any{"name": "key"})
	c.users, c.top = append(c.users, &user{name, dataOf[struct{ Key string }](t, a).Key}), top
}

func (q *sequence) changeCompany(t *rapid.T) {
	c := someOf(t, "company", q.companies())
	c.weight = oneOf(t, "weight", 0.5, 1.0, 2.0, 5.0)
	t.Logf("%s has the weight %g", c.no, c.weight)
	q.admin(t, http.MethodPatch, "/api/v1/admin/companies/"+c.no, map[string]any{"weight": c.weight})
}

// flip switches something off, or on again: a company, its use of shared senders, a country, or the channel.
func (q *sequence) flip(t *rapid.T) {
	w := q.world
	c := someOf(t, "company", q.companies())
	country := oneOf(t, "country", countries...).no
	path, body := "companies/"+c.no, map[string]any{}
	switch oneOf(t, "switch", "company", "company", "shared senders", "shared senders", "country", "channel") {
	case "company":
		c.off = !c.off
		body["status"] = onOff(!c.off)
	case "shared senders":
		c.routed = !c.routed
		body["uses_shared_senders"] = !c.routed
	case "country":
		w.countriesOff[country] = !w.countriesOff[country]
		path, body["status"] = "countries/"+country, onOff(!w.countriesOff[country])
	case "channel":
		w.channelOff = !w.channelOff
		path, body["status"] = "channels/sms", onOff(!w.channelOff)
	}
	t.Logf("change %s: %s", path, encoded(t, body))
	q.admin(t, http.MethodPatch, "/api/v1/admin/"+path, body)
}

// flipOn switches everything on.
func (q *sequence) flipOn(t *rapid.T) {
	for _, c := range q.companies() {
		if c.off || c.routed {
			c.off, c.routed = false, false
			q.admin(t, http.MethodPatch, "/api/v1/admin/companies/"+c.no, map[string]any{"status": "on", "uses_shared_senders": true})
		}
	}
	for _, c := range countries {
		q.admin(t, http.MethodPatch, "/api/v1/admin/countries/"+c.no, map[string]any{"status": "on"})
	}
	q.admin(t, http.MethodPatch, "/api/v1/admin/channels/sms", map[string]any{"status": "on"})
	q.world.channelOff, q.world.countriesOff = false, map[string]bool{}
	t.Log("everything is on")
}

// createOrDeleteCompany creates a company or deletes one. The deletion fails if a row refers to the company.
func (q *sequence) createOrDeleteCompany(t *rapid.T) {
	c := oneOf(t, "company", append(q.companies(), nil)...)
	if c == nil {
		if len(q.companies()) < 5 {
			t.Logf("create %s", q.createCompany(t, 1).no)
		}
		return
	}
	a := q.service.call(t, "", http.MethodDelete, "/api/v1/admin/companies/"+c.no, nil)
	refers := len(c.users) > 0 ||
		slices.ContainsFunc(q.world.routes, func(r *route) bool { return r.company == c }) ||
		slices.ContainsFunc(q.world.templates, func(x *template) bool { return slices.Contains(x.companies, c) }) ||
		slices.ContainsFunc(q.world.defaults, func(d *defaultContent) bool { return d.company == c })
	t.Logf("delete %s: %d", c.no, a.Status)
	switch {
	case refers && (a.Status != http.StatusConflict || a.Body.Error.Reason != "in_use"):
		t.Fatalf("something refers to %s, and it could be deleted: %s", c.no, a.Raw)
	case !refers && a.Status != http.StatusOK:
		t.Fatalf("nothing refers to %s, and it cannot be deleted: %s", c.no, a.Raw)
	}
	c.gone = !refers
}

// zones are the time zones that senders can have.

var zones = map[string]*time.Location{"Asia/Shanghai": nil, "America/St_Johns": nil}

func init() {
	for name := range zones {
		zone, err := time.LoadLocation(name)
		if err != nil {
			panic(err)
		}
		zones[name] = zone
	}
}

// pace draws the interval, limits and balance of a sender.
func pace(t *rapid.T, body map[string]any, s *sender) {
	limits := map[string]any{}
	for u, unit := range units {
		if limit := optional(t, "limit by "+unit, [][]int{{1, 4, 9}, {0, 6, 20}, {15, 40}, {60}}[u]...); limit != nil {
			limits["per_"+unit], s.limits[u] = *limit, limit
		}
	}
	body["limits"] = limits
}

func (q *sequence) createSender(t *rapid.T) {
	zone := oneOf(t, "time zone", "Asia/Shanghai", "America/St_Johns")
	s := &sender{no: q.name("sender"), status: "on", zone: zones[zone], lease: usualLease, used: map[string]int{}}
	s.shared = oneOf(t, "is shared", true, false)
	body := map[string]any{"sender_no": s.no, "name": s.no, "time_zone": zone, "is_shared": s.shared}
	if interval := optional(t, "interval", time.Second, 20*time.Second); interval != nil {
		s.interval, body["interval_ms"] = *interval, interval.Milliseconds()
	}
	if oneOf(t, "has limits", false, false, true) {
		pace(t, body, s)
	}
	if lease := optional(t, "lease", time.Minute); lease != nil {
		s.lease, body["lease_seconds"] = *lease, lease.Seconds()
	}
	if balance := optional(t, "balance", 0, 1, 7, 30); balance != nil {
		s.change(*balance, 0)
		body["balance"] = *balance
		if s.lowSwitch = optional(t, "low switch", 0, 2); s.lowSwitch != nil {
			body["low_switch"] = *s.lowSwitch
		}
		if s.lowWarning = optional(t, "low warning", 5); s.lowWarning != nil {
			body["low_warning"] = *s.lowWarning
		}
	}
	if sort := optional(t, "sort", 1.0, 2.0); sort != nil {
		s.sort, body["sort"] = *sort, *sort
	}
	if sign := optional(t, "sign", "Absender"); sign != nil {
		s.sign, body["sign"] = *sign, *sign
	}
	if size := optional(t, "segment size", 50); size != nil {
		s.size, body["segment_size"] = *size, *size
	}
	q.admin(t, http.MethodPost, "/api/v1/admin/senders", body)
	q.world.senders = append(q.world.senders, s)
	q.touchSender(s)
}

// changeSender changes one field of a sender.
func (q *sequence) changeSender(t *rapid.T) {
	s := someOf(t, "sender", q.world.senders)
	body := map[string]any{}
	switch oneOf(t, "change", "status", "interval", "limits", "is shared", "low switch") {
	case "status":
		s.status = oneOf(t, "status", "on", "off", "retired")
		body["status"] = s.status
	case "interval":
		interval := oneOf(t, "interval", 0, time.Second, time.Minute)
		s.retime(interval)
		body["interval_ms"] = interval.Milliseconds()
	case "limits":
		s.limits = [4]*int{}
		pace(t, body, s)
		limits, _ := body["limits"].(map[string]any)
		for _, unit := range units {
			if limits["per_"+unit] == nil {
				limits["per_"+unit] = nil // null removes the limit
			}
		}
	case "is shared":
		s.shared = oneOf(t, "is shared", true, false)
		body["is_shared"] = s.shared
	case "low switch":
		level := oneOf(t, "low switch", 0, 3)
		if s.lowSwitch == nil || *s.lowSwitch != level { // a change of a threshold is also a ledger entry
			s.ledger = append(s.ledger, ledgerEntry{0, valueOf(s.balance), 0})
		}
		s.lowSwitch, body["low_switch"] = &level, level
	}
	t.Logf("change %s: %s", s.no, encoded(t, body))
	q.admin(t, http.MethodPatch, "/api/v1/admin/senders/"+s.no, body)
	q.touchSender(s)
}

// changeBalance adds a positive or negative amount to the balance of a sender. A sender without a balance gets a balance.
func (q *sequence) changeBalance(t *rapid.T) {
	s := someOf(t, "sender", q.world.senders)
	by := oneOf(t, "change", 1, 3, 20, -1, -15)
	a, lost := q.ask(t, "", http.MethodPost, "/api/v1/admin/senders/"+s.no+"/balance", map[string]any{"change": by})
	if lost {
		q.changedPerhaps(t, s, by)
		return
	}
	t.Logf("change the balance of %s by %d: %d", s.no, by, a.Status)
	q.touchSender(s)
	if valueOf(s.balance)+by < 0 {
		if a.Status != http.StatusUnprocessableEntity {
			t.Fatalf("a balance of %d was changed by %d: %s", valueOf(s.balance), by, a.Raw)
		}
		return
	}
	entry := dataOf[ledgerRow](t, a)
	if s.change(by, 0); entry.Change != by || entry.Balance != *s.balance {
		t.Fatalf("the balance of %s should be %d: %s", s.no, *s.balance, a.Raw)
	}
}

// kinds are the message types.

var kinds = []string{"verification", "notification", "marketing"}

// createRoute adds a sender to a pool, preferably to a pool that has a route.
func (q *sequence) createRoute(t *rapid.T) {
	p := pool{someOf(t, "company", q.companies()), oneOf(t, "message type", "verification", "notification"), oneOf(t, "country", "", "", "CN", "DE")}
	if len(q.world.routes) > 0 && oneOf(t, "beside another", true, true, false) {
		p = oneOf(t, "route", q.world.routes...).pool()
	}
	r := &route{
		company: p.company, kind: p.kind, country: p.country,
		sender: someOf(t, "sender", q.world.senders), weight: oneOf(t, "weight", 1, 3), on: oneOf(t, "on", true, true, true, false),
	}
	body := map[string]any{"company_no": r.company.no, "message_type": r.kind, "sender_no": r.sender.no, "weight": r.weight, "status": onOff(r.on)}
	if r.country != "" {
		body["country_no"] = r.country
	}
	if sort := optional(t, "sort", 1.0, 2.0); sort != nil {
		r.sort, body["sort"] = *sort, *sort
	}
	a := q.service.call(t, "", http.MethodPost, "/api/v1/admin/routes", body)
	t.Logf("create route %s: %d", encoded(t, body), a.Status)
	if slices.ContainsFunc(q.world.routes, func(o *route) bool { return o.pool() == r.pool() && o.sender == r.sender }) {
		if a.Status != http.StatusConflict {
			t.Fatalf("a second route of the same pool and sender was created: %s", a.Raw)
		}
		return
	}
	r.no = dataOf[struct {
		No int64 `json:"route_no"`
	}](t, a).No
	q.world.routes = append(q.world.routes, r)
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func (q *sequence) changeRoute(t *rapid.T) {
	r := someOf(t, "route", q.world.routes)
	body := map[string]any{}
	switch oneOf(t, "change", "status", "weight", "sort") {
	case "status":
		r.on = !r.on
		body["status"] = onOff(r.on)
	case "weight":
		r.weight = oneOf(t, "weight", 1, 2, 7)
		body["weight"] = r.weight
	case "sort":
		r.sort = oneOf(t, "sort", 0.0, 1.0, 2.0)
		body["sort"] = r.sort
	}
	t.Logf("change route %s of %s: %s", r.pool(), r.sender.no, encoded(t, body))
	q.admin(t, http.MethodPatch, "/api/v1/admin/routes/"+strconv.FormatInt(r.no, 10), body)
}

func (q *sequence) deleteRoute(t *rapid.T) {
	r := someOf(t, "route", q.world.routes)
	t.Logf("delete route %s of %s", r.pool(), r.sender.no)
	q.admin(t, http.MethodDelete, "/api/v1/admin/routes/"+strconv.FormatInt(r.no, 10), nil)
	q.world.routes = slices.DeleteFunc(q.world.routes, func(o *route) bool { return o == r })
}

// texts are the texts of templates and default contents.

var texts = []string{"{code} is your code", "您的验证码是{code}，{name}", "{name}", "all the same"}

func (q *sequence) createTemplate(t *rapid.T) {
	x := &template{text: oneOf(t, "text", texts...), active: oneOf(t, "is active", true, true, false), scheduled: oneOf(t, "is scheduled", false, false, true)}
	body := map[string]any{"template_name": "template", "template_content": x.text, "is_active": x.active}
	if x.scheduled {
		body["send_type"] = "scheduled"
	}
	if oneOf(t, "for one company", false, true) {
		c := someOf(t, "company", q.companies())
		x.companies, body["companies"] = []*company{c}, []string{c.no}
	}
	t.Logf("create template %s", encoded(t, body))
	x.id = dataOf[struct{ ID int64 }](t, q.admin(t, http.MethodPost, "/api/v1/admin/template", body)).ID
	q.world.templates = append(q.world.templates, x)
}

func (q *sequence) changeTemplates(t *rapid.T) {
	x := oneOf(t, "template", append(slices.Clone(q.world.templates), nil)...)
	if x == nil {
		q.createTemplate(t)
		return
	}
	path := "/api/v1/admin/template/" + strconv.FormatInt(x.id, 10)
	if oneOf(t, "delete", false, false, true) {
		t.Logf("delete template %d", x.id)
		q.admin(t, http.MethodDelete, path, nil)
		q.world.templates = slices.DeleteFunc(q.world.templates, func(o *template) bool { return o == x })
		return
	}
	x.active, x.text = oneOf(t, "is active", true, false), oneOf(t, "text", texts...)
	t.Logf("change template %d: %v %s", x.id, x.active, x.text)
	q.admin(t, http.MethodPatch, path, map[string]any{"is_active": x.active, "template_content": x.text})
}

// changeDefaults creates, changes, resets or deletes a default content.
func (q *sequence) changeDefaults(t *rapid.T) {
	d := oneOf(t, "default content", append(slices.Clone(q.world.defaults), nil, nil)...)
	if d == nil {
		q.createDefault(t)
		return
	}
	path := "/api/v1/admin/default-sms/" + strconv.FormatInt(d.id, 10)
	act := oneOf(t, "act", "change", "reset", "delete")
	t.Logf("%s the default content of %s", act, d.to.written)
	switch act {
	case "change":
		d.content = oneOf(t, "content", "hello", "code=7")
		q.admin(t, http.MethodPatch, path, map[string]any{"content": d.content})
	case "reset":
		q.admin(t, http.MethodPost, path+"/reset", nil)
		d.sent = false
	case "delete":
		q.admin(t, http.MethodDelete, path, nil)
		q.world.defaults = slices.DeleteFunc(q.world.defaults, func(o *defaultContent) bool { return o == d })
	}
}

func (q *sequence) createDefault(t *rapid.T) {
	d := &defaultContent{
		company: someOf(t, "company", q.companies()), to: oneOf(t, "number", numbers...), content: oneOf(t, "content", "hello", "code=7&name=x", strings.Repeat("长", 71)),
		useTemplate: oneOf(t, "by template", false, true),
	}
	body := map[string]any{"company_no": d.company.no, "phone_number": d.to.written, "content": d.content, "use_template": d.useTemplate}
	a := q.service.call(t, "", http.MethodPost, "/api/v1/admin/default-sms", body)
	t.Logf("create default content %s: %d", encoded(t, body), a.Status)
	if q.world.defaultFor(d.company, d.to) != nil {
		if a.Status != http.StatusConflict {
			t.Fatalf("a second default content of the same number was created: %s", a.Raw)
		}
		return
	}
	d.id = dataOf[struct{ ID int64 }](t, a).ID
	q.world.defaults = append(q.world.defaults, d)
}
