package model

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// This file contains the steps that change rules about recipients.

const blocksPath = "/api/v1/blocks"

// blocker draws who adds or deletes a block: a company (nil: all companies), and the key of the caller. Callers of a company need not name it.
func (q *sequence) blocker(t *rapid.T, body map[string]any) (c *company, key string) {
	c = oneOf(t, "company", append(q.companies(), nil)...)
	switch {
	case c == nil:
	case len(c.users) > 0 && oneOf(t, "by a user", false, true):
		key = oneOf(t, "user", c.users...).key
	default:
		body["company_no"] = c.no
	}
	return c, key
}

// addBlock blocks a number. Before the answer, waiting messages are cancelled.
func (q *sequence) addBlock(t *rapid.T) {
	w, body := q.world, map[string]any{}
	c, key := q.blocker(t, body)
	b := &block{company: c, to: oneOf(t, "number", numbers...), scope: oneOf(t, "scope", "marketing", "marketing", "notification", "all")}
	body["phone_number"], body["scope"] = b.to.written, b.scope
	if lasts := optional(t, "expires", 10*time.Second, 5*time.Minute, 2*time.Hour); lasts != nil {
		at := w.now.Add(*lasts)
		b.expires, body["expires_at"] = &at, at
	}
	t.Logf("block %s", encoded(t, body))
	a, lost := q.ask(t, key, http.MethodPost, blocksPath, body)
	if lost {
		q.blockedPerhaps(t, b)
		return
	}
	got := dataOf[struct {
		Cancelled int `json:"cancelled_tasks"`
		Held      []struct {
			TaskID     string    `json:"task_id"`
			SenderNo   string    `json:"sender_no"`
			LeaseUntil time.Time `json:"lease_until"`
		} `json:"held_tasks"`
	}](t, a)
	cancelled, held := w.block(b)
	var listed, want []string
	for _, h := range got.Held {
		listed = append(listed, fmt.Sprint(h.TaskID, " ", h.SenderNo, " ", h.LeaseUntil.UTC()))
	}
	for _, x := range held {
		want = append(want, fmt.Sprint(x.id, " ", x.holder, " ", x.until.UTC()))
		q.touch(x)
	}
	slices.Sort(listed)
	slices.Sort(want)
	t.Logf("  %d cancelled, %d held", cancelled, len(held))
	if got.Cancelled != cancelled || !slices.Equal(listed, want) {
		t.Fatalf("a block should cancel %d tasks, and name %q: %s", cancelled, want, a.Raw)
	}
}

// blockRow is a block as the API returns it.
type blockRow struct {
	PhoneNumber string     `json:"phone_number"`
	Scope       string     `json:"scope"`
	CompanyNo   *string    `json:"company_no"`
	ExpiresAt   *time.Time `json:"expires_at"`
}

// blockedPerhaps queries whether a block was stored. If it was, the sweep of another server enforces it.
func (q *sequence) blockedPerhaps(t *rapid.T, b *block) {
	t.Helper()
	if !slices.ContainsFunc(q.blockRows(t, b.to), func(row blockRow) bool {
		return row.Scope == b.scope && isSame(row.ExpiresAt, b.expires) && (b.company == nil && row.CompanyNo == nil || b.company != nil && row.CompanyNo != nil && *row.CompanyNo == b.company.no)
	}) {
		return
	}
	if _, err := q.service.any().Blocks.EnforceAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	q.world.block(b)
	t.Log("  it is stored")
}

func (q *sequence) blockRows(t *rapid.T, to number) []blockRow {
	t.Helper()
	return dataOf[struct{ Items []blockRow }](t, q.service.call(t, "", http.MethodGet, blocksPath+"?phone_number="+url.QueryEscape(to.e164), nil)).Items
}

// deleteBlocks deletes blocks of a number, mostly of a number that has a block. Messages that the blocks cancelled stay cancelled.
func (q *sequence) deleteBlocks(t *rapid.T) {
	w, names := q.world, map[string]any{}
	c, key := q.blocker(t, names)
	to := oneOf(t, "number", numbers...)
	if mine := slices.DeleteFunc(slices.Clone(w.blocks), func(b *block) bool { return b.company != c }); len(mine) > 0 {
		to = oneOf(t, "block", mine...).to
	}
	scope := oneOf(t, "scope", "", "", "marketing", "notification", "all")
	query := url.Values{}
	for name, value := range names {
		query.Set(name, fmt.Sprint(value))
	}
	if scope != "" {
		query.Set("scope", scope)
	}
	path := blocksPath + "/" + to.e164 + "?" + query.Encode()
	a, lost := q.ask(t, key, http.MethodDelete, path, nil)
	t.Logf("delete %s: %d", strings.TrimPrefix(path, blocksPath), a.Status)
	if lost {
		listed := slices.DeleteFunc(slices.Clone(w.blocks), func(b *block) bool { return b.to != to || b.company != nil && b.company.gone })
		if len(q.blockRows(t, to)) < len(listed) {
			w.unblock(c, to, scope)
		}
		return
	}
	switch deleted := w.unblock(c, to, scope); {
	case deleted > 0 && a.Status != http.StatusOK:
		t.Fatalf("%d blocks of %s cannot be deleted: %s", deleted, to.e164, a.Raw)
	case deleted == 0 && (a.Status != http.StatusNotFound || a.Body.Error.Reason != "block.not_found"):
		t.Fatalf("%s has no such block: %s", to.e164, a.Raw)
	}
}

// changeCaps sets or removes the caps of a company and message type.
func (q *sequence) changeCaps(t *rapid.T) {
	c, kind := someOf(t, "company", q.companies()), oneOf(t, "message type", kinds...)
	rule := oneOf(t, "caps", caps{}, caps{}, caps{1, 0, 0}, caps{0, 2, 0}, caps{0, 0, 3}, caps{1, 2, 0}, caps{2, 0, 4})
	body := map[string]any{}
	for u, name := range []string{"per_minute", "per_hour", "per_day"} {
		if body[name] = rule[u]; rule[u] == 0 && oneOf(t, "by null", true, false) {
			body[name] = nil
		}
	}
	c.caps[kind] = rule
	t.Logf("%s has the caps %v for %s", c.no, rule, kind)
	q.admin(t, http.MethodPatch, "/api/v1/admin/companies/"+c.no, map[string]any{"recipient": map[string]any{"caps": map[string]any{kind: body}}})
}

// limitation is a message that a cap refused.
type limitation struct {
	list  capped
	at    time.Time // when the message would be due
	after string    // header Retry-After; empty: the request contained several messages
}

// checkLimited checks that caps refused no message without reason, and checks the time after which the next message is allowed. The messages of one request
// have no order, so the messages that were accepted count, too.
func (q *sequence) checkLimited(t *rapid.T) {
	t.Helper()
	w := q.world
	for _, l := range q.limited {
		if w.isLimited(l.list, l.at) == no {
			t.Fatalf("no cap of %s forbids a message to %s at %s, but it was refused", l.list.company.no, l.list.to.e164, l.at)
		}
		if l.after == "" {
			continue
		}
		first, isSure := w.allowedFrom(l.list, l.at)
		if want := strconv.Itoa(int(math.Ceil(first.Sub(w.now).Seconds()))); isSure && l.after != want {
			t.Fatalf("a cap of %s allows the next message to %s at %s, in %s seconds, but Retry-After is %s", l.list.company.no, l.list.to.e164, first, want, l.after)
		}
	}
	q.limited = nil
}
