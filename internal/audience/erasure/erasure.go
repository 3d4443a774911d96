// Package erasure owns the erasure of people from the data of a company. Facts and counters are kept: a task keeps its times, its sender and its outcome, but
// loses its recipient and its texts.
package erasure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lksms/gen/erasureq"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/setting"
	"lksms/internal/platform/sweep"
)

const (
	portion     = 500 // maximum rows that one transaction changes
	maxContacts = 100 // maximum contacts of one erasure, which is also the maximum number that can share an address
	maxRunning  = 100 // maximum running erasures of a company
	maxDue      = 10  // maximum erasures that one run processes
	maxAnswers  = 1000
	deleteBatch = 100
	waitSeconds = 5 // seconds until leased tasks, and lists that are being read, are checked again
)

// Service erases people.
type Service struct {
	db        *postgres.DB
	q         *erasureq.Queries
	tasks     *task.Service
	directory *directory.Service
	settings  *setting.Service
}

// New returns a Service on db.
func New(db *postgres.DB, tasks *task.Service, directory *directory.Service, settings *setting.Service) *Service {
	return &Service{db: db, q: erasureq.New(db), tasks: tasks, directory: directory, settings: settings}
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "erase-people", Interval: time.Second, Limit: 30 * time.Minute, Run: s.Run},
		{Roles: servers.Roles{servers.Sweep}, Name: "delete-expired-erasures", Interval: 10 * time.Minute, Run: s.DeleteExpired},
	}
}

// Request asks to erase a person: a user, or everyone with an address. Nil fields are unknown.
type Request struct {
	CompanyID            int64
	UserID, Phone, Email *string
	By                   string // user name
}

// Counts contains the number of erased rows, by kind.
type Counts struct {
	Contacts        int64 `json:"contacts,omitempty"`
	Tags            int64 `json:"tags,omitempty"`      // tags from which contacts were removed
	Cancelled       int64 `json:"cancelled,omitempty"` // tasks
	Tasks           int64 `json:"tasks,omitempty"`
	Reports         int64 `json:"reports,omitempty"`
	Attempts        int64 `json:"attempts,omitempty"`
	Receipts        int64 `json:"receipts,omitempty"`
	Callbacks       int64 `json:"callbacks,omitempty"`
	Texts           int64 `json:"texts,omitempty"` // rendered texts
	Notifications   int64 `json:"notifications,omitempty"`
	SentOnce        int64 `json:"sent_once,omitempty"`
	BatchRows       int64 `json:"batch_rows,omitempty"`
	DefaultContents int64 `json:"default_contents,omitempty"`
	Submissions     int64 `json:"submissions,omitempty"` // submissions without a task
	DedupKeys       int64 `json:"dedup_keys,omitempty"`
	Answers         int64 `json:"answers,omitempty"` // stored answers of idempotency keys
	Jobs            int64 `json:"jobs,omitempty"`
	Changes         int64 `json:"changes,omitempty"` // rows of the audit
}

// CountsOf returns the counts of an erasure.
func CountsOf(e Row) (c Counts, err error) {
	if err := json.Unmarshal(e.Counts, &c); err != nil {
		return c, fmt.Errorf("read counts of erasure: %w", err)
	}
	return c, nil
}

var errNone = fault.New(fault.NotFound, fault.ErasureNotFound)

// Start stores a request to erase a person. Run performs the erasure later. Faults: request.invalid, limit.reached.
func (s *Service) Start(ctx context.Context, r Request) (Row, error) {
	p := erasureq.ErasureCreateParams{CompanyID: r.CompanyID, UserIds: []string{}, AskedRecipients: []string{}, CreatedBy: r.By, Most: maxRunning}
	if r.UserID != nil {
		p.UserIds = append(p.UserIds, *r.UserID)
	}
	if r.Phone != nil {
		number, err := s.directory.NormaliseNumber(ctx, &r.CompanyID, "phone", r.Phone)
		if err != nil {
			return Row{}, err
		}
		p.AskedRecipients = append(p.AskedRecipients, *number)
	}
	if r.Email != nil {
		p.AskedRecipients = append(p.AskedRecipients, distinct([]string{*r.Email, strings.ToLower(*r.Email)})...)
	}
	if len(p.UserIds)+len(p.AskedRecipients) == 0 {
		return Row{}, fault.InvalidField("user_id", fault.Required, nil)
	}
	contacts, err := s.q.ErasedContacts(ctx, erasureq.ErasedContactsParams{
		CompanyID: r.CompanyID, UserIds: p.UserIds, Recipients: p.AskedRecipients, Most: maxContacts + 1,
	})
	switch {
	case err != nil:
		return Row{}, fmt.Errorf("find contacts: %w", err)
	case len(contacts) > maxContacts:
		return Row{}, fault.InvalidField("phone", fault.TooManySelected, maxContacts)
	}
	p.Recipients = slices.Clone(p.AskedRecipients)
	for _, c := range contacts {
		p.UserIds = append(p.UserIds, c.UserID)
		for _, address := range []*string{c.Phone, c.Email, c.DingtalkName, c.WechatOpenid} {
			if address != nil {
				p.Recipients = append(p.Recipients, *address)
			}
		}
	}
	p.UserIds, p.Recipients = distinct(p.UserIds), distinct(p.Recipients)
	id, err := s.q.ErasureCreate(ctx, p)
	if err != nil {
		return Row{}, postgres.Wrap("create erasure", err, fault.AtLimit(maxRunning))
	}
	return s.Get(ctx, r.CompanyID, id)
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

// List returns up to limit erasures of a company with smaller ids than before, newest first.
func (s *Service) List(ctx context.Context, companyID, before int64, limit int) ([]Row, error) {
	rows, err := s.q.ErasureList(ctx, erasureq.ErasureListParams{CompanyID: companyID, BeforeID: before, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list erasures", err, nil)
}

// Unsearched returns the folders of exports whose tasks have been dropped. Erasures cannot check whether these exports contain a person.
func (s *Service) Unsearched(ctx context.Context) ([]string, error) {
	folders, err := s.q.ExportsDropped(ctx)
	return append([]string{}, folders...), postgres.Wrap("find exports", err, nil)
}

// DeleteExpired deletes erasures that ended longer ago than the setting history.log_days, and returns how many it deleted.
func (s *Service) DeleteExpired(ctx context.Context) (int, error) {
	return s.settings.DeleteExpiredLogs(ctx, deleteBatch, func(keep time.Duration) (int64, error) {
		n, err := s.q.ErasuresDeleteExpired(ctx, erasureq.ErasuresDeleteExpiredParams{BatchSize: deleteBatch, Keep: keep})
		return n, postgres.Wrap("delete erasures", err, nil)
	})
}

// Run performs the due erasures, and returns how many ended. Each erasure repeats all of its steps until a pass finds nothing new. In addition, no sender may
// hold a lease on a task of the person, no list that may contain the person may still be read, and the SQL inbox must not contain an earlier message. An
// interrupted step is repeated: it processes the remaining rows.
func (s *Service) Run(ctx context.Context) (ended int, err error) {
	due, err := s.q.ErasuresDue(ctx, maxDue)
	if err != nil {
		return 0, fmt.Errorf("find erasures: %w", err)
	}
	var failures []error
	for _, e := range due {
		isOver, err := s.run(ctx, newPerson(e))
		if err != nil {
			// The next erasures must not wait for this one.
			failures = append(failures, fmt.Errorf("erasure %d: %w", e.ID, err), s.wait(ctx, e.ID, e.Held))
		} else if isOver {
			ended++
		}
	}
	return ended, errors.Join(failures...)
}

func (s *Service) wait(ctx context.Context, id, held int64) error {
	return postgres.Wrap("wait with erasure", s.q.ErasureWait(ctx, erasureq.ErasureWaitParams{ID: id, Held: held, Seconds: waitSeconds}), nil)
}

// person is the person that an erasure is about.
type person struct {
	Row

	pseudonym string   // replacement of the user ids, followed by the index of each user id
	digits    []string // last digits of the phone numbers
	hasFound  bool     // whether this pass found contacts or tasks
	recent    []string // tasks of the current portion that are younger than the lifetime of idempotency keys
}

// digitsShown is the number of last digits that statements compare before the whole number is compared.
const digitsShown = 8

func newPerson(e Row) *person {
	p := &person{Row: e, pseudonym: fmt.Sprintf("erased-%d-", e.ID)}
	for _, address := range e.Recipients {
		if strings.HasPrefix(address, "+") {
			digits := address[1:]
			p.digits = append(p.digits, digits[max(0, len(digits)-digitsShown):])
		}
	}
	return p
}

// addresses returns the addresses and user ids of the person in lower case, as rows of batches may contain them.
func (p *person) addresses() (all []string) {
	for _, one := range slices.Concat(p.Recipients, p.UserIds) {
		all = append(all, strings.ToLower(one))
	}
	return all
}

// isOf reports whether a number, in any notation, belongs to the person.
func (p *person) isOf(number string) bool {
	normal, err := phone.Normalise("", number, "")
	if err != nil {
		normal = number
	}
	return slices.ContainsFunc(p.Recipients, func(address string) bool {
		return normal == address || strings.HasPrefix(address, "+") && (phone.IsInFull(address, number) || phone.IsAtHome(address, number))
	})
}

// run performs the steps of an erasure once.
func (s *Service) run(ctx context.Context, p *person) (isOver bool, err error) {
	for _, step := range []func(context.Context, *person) error{s.eraseContacts, s.refuseRows, s.eraseAnnouncements} {
		if err := step(ctx, p); err != nil {
			return false, err
		}
	}
	// Checked before the tasks: a message that leaves the inbox now is found among the tasks, or by the next pass.
	hasInbox, err := s.q.SqlInboxHas(ctx, erasureq.SqlInboxHasParams{CompanyID: p.CompanyID, Before: p.CreatedAt})
	if err != nil {
		return false, fmt.Errorf("look into the inbox: %w", err)
	}
	held, err := s.eraseTasks(ctx, p)
	if err != nil {
		return false, err
	}
	lists, err := s.q.ErasureLists(ctx, erasureq.ErasureListsParams{CompanyID: p.CompanyID, Before: p.CreatedAt})
	if err != nil {
		return false, fmt.Errorf("find lists: %w", err)
	}
	if held+lists > 0 || p.hasFound || hasInbox { // a transaction that read the contact before its erasure may commit tasks after the search for tasks
		return false, s.wait(ctx, p.ID, held+lists)
	}
	for _, step := range []func(context.Context, *person) error{s.eraseAnswers, s.eraseRows, s.eraseSubmissions, s.eraseRest} {
		if err := step(ctx, p); err != nil {
			return false, err
		}
	}
	return true, postgres.Wrap("end erasure", s.q.ErasureEnd(ctx, p.ID), nil)
}

// count calls do in a transaction, and adds the returned counts to the counts of the erasure. ids are the tasks that do changes.
func (s *Service) count(ctx context.Context, p *person, ids []string, do func(ctx context.Context) (Counts, error)) error {
	if ids == nil {
		ids = []string{}
	}
	return s.db.Tx(ctx, func(ctx context.Context) error {
		c, err := do(ctx)
		p.hasFound = p.hasFound || c.Contacts+c.Tasks+c.Cancelled > 0
		if err != nil || c == (Counts{}) && len(ids) == 0 {
			return err
		}
		text, err := json.Marshal(c)
		if err != nil {
			return fmt.Errorf("write counts: %w", err)
		}
		return postgres.Wrap("count", s.q.ErasureCount(ctx, erasureq.ErasureCountParams{ID: p.ID, Counts: text, TaskIds: ids}), nil)
	})
}
