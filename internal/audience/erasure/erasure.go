// Package erasure performs requests to erase people: it asks each room to erase its own tables (Owner). Facts and counters are kept. A task keeps its times,
// its sender and its outcome, but loses its recipient and its texts.
package erasure

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"lksms/gen/erasureq"
	"lksms/internal/audience/contact"
	"lksms/internal/dispatch/address"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/platform/erase"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/setting"
	"lksms/internal/platform/sweep"
)

const (
	maxRunning  = 100 // maximum number of running erasures of a company
	maxDue      = 10  // maximum number of erasures that one run processes
	deleteBatch = 100
	waitSeconds = 5 // seconds until an erasure checks again whether tasks are leased and lists are being read
)

// Services are the services that erasures use.
type Services struct {
	Tasks     *task.Service
	Contacts  *contact.Service
	Directory *directory.Service
	Settings  *setting.Service

	Owners []Owner // in the order in which they erase
}

// Service erases people.
type Service struct {
	Services

	db *postgres.DB
	q  *erasureq.Queries
}

// New returns a Service on db.
func New(db *postgres.DB, services Services) *Service {
	return &Service{Services: services, db: db, q: erasureq.New(db)}
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "erase-people", Interval: time.Second, Limit: 30 * time.Minute, Run: s.Run},
		{Roles: servers.Roles{servers.Sweep}, Name: "delete-expired-erasures", Interval: 10 * time.Minute, Run: s.DeleteExpired},
	}
}

// Request asks to erase a person: a user, or every person who has an address. A nil field is unknown.
type Request struct {
	CompanyID            int64
	UserID, Phone, Email *string
	By                   string // user name
}

// CountsOf returns the counts of an erasure.
func CountsOf(e Row) (c erase.Counts, err error) {
	if err := json.Unmarshal(e.Counts, &c); err != nil {
		return c, fmt.Errorf("read counts of erasure: %w", err)
	}
	return c, nil
}

var errNone = fault.New(fault.NotFound, fault.ErasureNotFound)

// Start stores a request to erase a person. Run performs the erasure later. Faults: request.invalid, limit.reached.
func (s *Service) Start(ctx context.Context, r Request) (Row, error) {
	p := erasureq.ErasureCreateParams{CompanyID: r.CompanyID, UserIds: []string{}, AskedRecipients: []string{}, CreatedBy: r.By, MaxRunning: maxRunning}
	if r.UserID != nil {
		p.UserIds = append(p.UserIds, *r.UserID)
	}
	if r.Phone != nil {
		number, err := s.Directory.NormaliseNumber(ctx, &r.CompanyID, "phone", r.Phone)
		if err != nil {
			return Row{}, err
		}
		p.AskedRecipients = append(p.AskedRecipients, *number)
	}
	if r.Email != nil {
		p.AskedRecipients = append(p.AskedRecipients, formsOf(*r.Email)...)
	}
	if len(p.UserIds)+len(p.AskedRecipients) == 0 {
		return Row{}, fault.InvalidField("user_id", fault.Required, nil)
	}
	contacts, err := s.Contacts.FindByPerson(ctx, r.CompanyID, p.UserIds, p.AskedRecipients)
	switch {
	case err != nil:
		return Row{}, err
	case len(contacts) > contact.MaxErased:
		return Row{}, fault.InvalidField("phone", fault.TooManySelected, contact.MaxErased)
	}
	p.Recipients = slices.Clone(p.AskedRecipients)
	for _, c := range contacts {
		p.UserIds = append(p.UserIds, c.UserID)
		for _, address := range []*string{c.Phone, c.DingtalkName, c.WechatOpenid} {
			if address != nil {
				p.Recipients = append(p.Recipients, *address, strings.ToLower(*address)) // codes go to the lower-case form
			}
		}
		if c.Email != nil {
			p.Recipients = append(p.Recipients, formsOf(*c.Email)...)
		}
	}
	p.UserIds = distinct(p.UserIds)
	ofCodes, err := s.q.ErasureRecipientsOfCodes(ctx, erasureq.ErasureRecipientsOfCodesParams{CompanyID: r.CompanyID, UserIds: p.UserIds})
	if err != nil {
		return Row{}, postgres.Wrap("find recipients of codes", err, nil)
	}
	p.Recipients = distinct(append(p.Recipients, ofCodes...))
	id, err := s.q.ErasureCreate(ctx, p)
	if err != nil {
		return Row{}, postgres.Wrap("create erasure", err, fault.AtLimit(maxRunning))
	}
	return s.Get(ctx, r.CompanyID, id)
}

// formsOf returns the forms in which an e-mail address can be stored: codes go to the lower-case form, and other messages to the form as it was written.
func formsOf(email string) (forms []string) {
	for _, form := range address.EmailForms(email) {
		forms = append(forms, form, strings.ToLower(form))
	}
	return distinct(forms)
}

func distinct(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}

// Get returns an erasure. Fault: erasure.not_found.
func (s *Service) Get(ctx context.Context, companyID, id int64) (Row, error) {
	rows, err := s.q.ErasureList(ctx, erasureq.ErasureListParams{CompanyID: companyID, ID: &id, BeforeID: id + 1, PageLimit: 1})
	return postgres.One(rows, err, "get erasure", errNone)
}

// List returns up to limit erasures of a company with smaller ids than `before`, newest first.
func (s *Service) List(ctx context.Context, companyID, before int64, limit int) ([]Row, error) {
	rows, err := s.q.ErasureList(ctx, erasureq.ErasureListParams{CompanyID: companyID, BeforeID: before, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list erasures", err, nil)
}

// ListUnsearchedExports returns the folders of exports whose tasks were dropped. An erasure cannot check whether these exports contain a person.
func (s *Service) ListUnsearchedExports(ctx context.Context) ([]string, error) {
	folders, err := s.q.ExportsDropped(ctx)
	return append([]string{}, folders...), postgres.Wrap("find exports", err, nil)
}

// DeleteExpired deletes erasures that ended longer ago than the setting history.log_days, and returns how many it deleted.
func (s *Service) DeleteExpired(ctx context.Context) (int, error) {
	return s.Settings.DeleteExpiredLogs(ctx, deleteBatch, func(keep time.Duration) (int64, error) {
		n, err := s.q.ErasuresDeleteExpired(ctx, erasureq.ErasuresDeleteExpiredParams{BatchSize: deleteBatch, Keep: keep})
		return n, postgres.Wrap("delete erasures", err, nil)
	})
}
