// Package block stores phone numbers that must not receive messages, and takes back waiting messages to them.
package block

import (
	"context"
	"fmt"
	"time"

	"lksms/gen/blockq"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/platform/erase"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/sweep"
)

// These are the scopes of blocks.
const (
	Marketing    = "marketing"    // only marketing messages
	Notification = "notification" // only notifications
	All          = "all"          // all messages, including verification codes
)

// typesOf contains the message types that each scope forbids. The database function blocks_of contains the same rule.
var typesOf = map[string][]int16{
	Marketing: {submit.Marketing}, Notification: {submit.Notification}, All: {submit.Verification, submit.Notification, submit.Marketing},
}

const (
	enforceLimit = 20 * time.Second // maximum duration of one enforcement
	portion      = 100              // maximum number of blocks that the sweep enforces together
	deleteBatch  = 1000             // maximum number of rows that one statement deletes
)

// Row is a block, and the number of its company. CompanyNo is nil if the block is for all companies.
type Row = blockq.BlockListRow

// Service stores blocks.
type Service struct {
	db    *postgres.DB
	q     *blockq.Queries
	tasks *task.Service
}

// New returns a Service.
func New(db *postgres.DB, tasks *task.Service) *Service {
	return &Service{db: db, q: blockq.New(db), tasks: tasks}
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "enforce-blocks", Interval: 5 * time.Second, Run: s.EnforceAll},
		{Roles: servers.Roles{servers.Sweep}, Name: "delete-expired-blocks", Interval: 10 * time.Minute, Run: s.DeleteExpired},
	}
}

// Block describes new blocks.
type Block struct {
	CompanyID *int64 // nil: all companies
	Scope     string
	Reason    *string
	ExpiresAt *time.Time // nil: no end
	By        string     // name of the user
}

// Put adds a block for each recipient, or changes the reason and the expiry of the blocks that exist. It returns the ids of the blocks. The recipients are
// numbers in E.164 without repeats. The caller calls Enforce after its transaction is committed. Otherwise the sweep enforce-blocks enforces the blocks.
func (s *Service) Put(ctx context.Context, b Block, recipients []string) ([]int64, error) {
	var ids []int64
	err := s.inTx(ctx, func(ctx context.Context) (err error) {
		ids, err = s.q.BlockPut(ctx, blockq.BlockPutParams{
			CompanyID: b.CompanyID, Recipients: recipients, Scope: b.Scope, Reason: b.Reason, CreatedBy: b.By, ExpiresAt: b.ExpiresAt,
		})
		return err
	})
	return ids, postgres.Wrap("store blocks", err, nil)
}

// OptOut blocks marketing messages of a company, because a person asks for it in a received message. It does nothing if another request of the person is later,
// or if the message is already handled. The caller has a transaction, and calls EnforceOfPeople after the commit.
func (s *Service) OptOut(ctx context.Context, receivedID int64, by string) error {
	asked, err := s.q.BlockRequestPut(ctx, blockq.BlockRequestPutParams{ReceivedID: receivedID, IsOptOut: true})
	if postgres.IsNoRows(err) {
		return nil
	}
	if err == nil {
		_, err = s.q.BlockPut(ctx, blockq.BlockPutParams{
			CompanyID: &asked.CompanyID, Recipients: []string{asked.PhoneNumber}, Scope: Marketing, CreatedBy: by, ReceivedID: &receivedID, AskedAt: &asked.AskedAt,
		})
	}
	return postgres.Wrap("store block of person", err, nil)
}

// OptIn deletes the blocks of a company for which a person asked, because the person asks for messages again in a received message. It returns the number of
// deleted blocks. Like OptOut, it does nothing if another request is later. The caller has a transaction.
func (s *Service) OptIn(ctx context.Context, receivedID int64) (deleted int64, err error) {
	asked, err := s.q.BlockRequestPut(ctx, blockq.BlockRequestPutParams{ReceivedID: receivedID})
	if postgres.IsNoRows(err) {
		return 0, nil
	}
	if err == nil {
		deleted, err = s.q.BlockDeleteOfPerson(ctx, blockq.BlockDeleteOfPersonParams{
			Recipient: asked.PhoneNumber, CompanyID: asked.CompanyID, NetworkAt: asked.NetworkAt,
		})
	}
	return deleted, postgres.Wrap("delete blocks of person", err, nil)
}

// inTx calls write in the transaction of ctx, or in a new one. A transaction is needed, because the audit gets the user of a request from it.
func (s *Service) inTx(ctx context.Context, write func(ctx context.Context) error) error {
	if s.db.InTx(ctx) {
		return write(ctx)
	}
	_, err := postgres.Again(ctx, s.db, func() (struct{}, error) { return struct{}{}, s.db.Tx(ctx, write) })
	return err //nolint:wrapcheck // the callers wrap the error
}

// Entry is a block of an imported list.
type Entry struct {
	Recipient string // in E.164
	Scope     string
	Reason    string     // empty: no reason
	ExpiresAt *time.Time // nil: no end
	AskedAt   *time.Time // when the person asked for the block; nil: a user added it
}

// List is an imported list of blocks of one company (nil: all companies). No two entries have the same recipient, scope, and origin (the person or a user).
type List struct {
	CompanyID *int64
	Entries   []Entry
	FileName  string
	By        string // name of the user
}

// Imported describes the blocks that Import stored. Unchanged blocks are not counted.
type Imported struct {
	Added, Changed int
	IDs            []int64 // of the blocks of the list that are not enforced
}

// Import adds the blocks of a list, or changes the reason and the expiry of the blocks that exist. It stores all entries or none. The audit contains each changed
// block, and the number of added blocks. The caller calls Enforce, as after Put.
func (s *Service) Import(ctx context.Context, l List) (done Imported, err error) {
	p := blockq.BlocksImportAddParams{CompanyID: l.CompanyID, CreatedBy: l.By}
	for _, e := range l.Entries {
		p.Recipients, p.Scopes, p.Reasons = append(p.Recipients, e.Recipient), append(p.Scopes, e.Scope), append(p.Reasons, e.Reason)
		p.Expiries, p.AskedAts = append(p.Expiries, textOf(e.ExpiresAt)), append(p.AskedAts, textOf(e.AskedAt))
	}
	err = s.inTx(ctx, func(ctx context.Context) error {
		if err := s.q.BlocksImportUnrecorded(ctx); err != nil {
			return err
		}
		changed, err := s.q.BlocksImportChange(ctx, blockq.BlocksImportChangeParams{
			CompanyID: p.CompanyID, Recipients: p.Recipients, Scopes: p.Scopes, Reasons: p.Reasons, Expiries: p.Expiries, AskedAts: p.AskedAts,
		})
		if err != nil {
			return err
		}
		added, err := s.q.BlocksImportAdd(ctx, p)
		if err != nil {
			return err
		}
		if added+changed > 0 {
			err := s.q.BlocksImportRecord(ctx, blockq.BlocksImportRecordParams{CompanyID: p.CompanyID, FileName: l.FileName, Added: added, Changed: changed})
			if err != nil {
				return err
			}
		}
		done.Added, done.Changed = int(added), int(changed)
		done.IDs, err = s.q.BlocksImportUnenforced(ctx, blockq.BlocksImportUnenforcedParams{
			CompanyID: p.CompanyID, Recipients: p.Recipients, Scopes: p.Scopes,
		})
		return err
	})
	return done, postgres.Wrap("import blocks", err, nil)
}

// textOf returns a time as text. No time is an empty text.
func textOf(at *time.Time) string {
	if at == nil {
		return ""
	}
	return at.Format(time.RFC3339Nano)
}

// Taken describes the tasks that waited when a block was added.
type Taken struct {
	Cancelled int          // tasks that waited
	Held      []task.Lease // tasks that a sender already has: their messages can still be sent once
}

// Enforce takes back the tasks that blocks forbid. After Enforce has returned without an error, no sender gets such a task. Enforce also finds the tasks of
// submissions that began before the block was stored.
func (s *Service) Enforce(ctx context.Context, ids []int64) (Taken, error) {
	return s.enforce(ctx, blockq.BlocksToEnforceParams{Ids: ids, MaxRows: int32(len(ids))})
}

// EnforceOfPeople enforces the blocks for which people asked, unless they are enforced. Entry n of recipients and entry n of companyIDs are the number and the
// company of one block.
func (s *Service) EnforceOfPeople(ctx context.Context, recipients []string, companyIDs []int64) error {
	if len(recipients) == 0 {
		return nil
	}
	ids, err := s.q.BlocksOfPeople(ctx, blockq.BlocksOfPeopleParams{Recipients: recipients, CompanyIds: companyIDs})
	if err != nil || len(ids) == 0 {
		return postgres.Wrap("find blocks of people", err, nil)
	}
	_, err = s.Enforce(ctx, ids)
	return err
}

// EnforceAll enforces the blocks that no server has enforced: their server has stopped, or the database was not available. It returns the number of cancelled
// tasks.
func (s *Service) EnforceAll(ctx context.Context) (cancelled int, err error) {
	taken, err := s.enforce(ctx, blockq.BlocksToEnforceParams{MaxRows: portion})
	return taken.Cancelled, err
}

func (s *Service) enforce(ctx context.Context, p blockq.BlocksToEnforceParams) (all Taken, err error) {
	ctx, cancel := context.WithTimeout(ctx, enforceLimit)
	defer cancel()
	rows, err := s.q.BlocksToEnforce(ctx, p)
	if err != nil || len(rows) == 0 {
		return all, postgres.Wrap("find blocks to enforce", err, nil)
	}
	if err := s.tasks.AwaitWriters(ctx); err != nil {
		return all, fmt.Errorf("enforce blocks: %w", err)
	}
	done, recipients := make([]int64, len(rows)), make([]string, len(rows))
	for i, row := range rows {
		done[i], recipients[i] = row.ID, row.Recipient
	}
	waiting, err := s.tasks.Waiting(ctx, recipients)
	if err != nil {
		return all, fmt.Errorf("enforce blocks: %w", err)
	}
	for _, row := range rows {
		if row.Recipient == "" || !waiting[row.Recipient] { // empty: the person was erased, and the erasure has cancelled its tasks
			continue
		}
		n, held, err := s.tasks.TakeBack(ctx, task.Blocked{Recipient: row.Recipient, CompanyID: row.CompanyID, MessageTypes: typesOf[row.Scope]}, row.CreatedBy)
		all.Cancelled, all.Held = all.Cancelled+n, append(all.Held, held...)
		if err != nil {
			return all, fmt.Errorf("enforce blocks: %w", err)
		}
	}
	return all, postgres.Wrap("mark blocks as enforced", s.q.BlocksEnforced(ctx, done), nil)
}

// Delete deletes the blocks that forbid one company to send to a recipient. A nil companyID means the blocks for all companies, a nil scope means every scope.
// Fault: block.not_found.
func (s *Service) Delete(ctx context.Context, companyID *int64, recipient string, scope *string) error {
	n, err := s.q.BlockDelete(ctx, blockq.BlockDeleteParams{Recipient: recipient, CompanyID: companyID, Scope: scope})
	if err == nil && n == 0 {
		return fault.New(fault.NotFound, fault.BlockNotFound)
	}
	return postgres.Wrap("delete blocks", err, nil)
}

// RecordConfirmation records that a block was confirmed to the person who asked for it.
func (s *Service) RecordConfirmation(ctx context.Context, id int64) error {
	return postgres.Wrap("record confirmation of block", s.q.BlockConfirmed(ctx, id), nil)
}

// Filter selects blocks of a list.
type Filter struct {
	CompanyID *int64  // nil: blocks of every company, and those for all companies
	Scope     *string // nil: every scope
	BeforeID  int64
	Limit     int
}

// List lists blocks, newest first.
func (s *Service) List(ctx context.Context, f Filter) ([]Row, error) {
	if f.CompanyID == nil {
		rows, err := s.q.BlockList(ctx, blockq.BlockListParams{Scope: f.Scope, BeforeID: f.BeforeID, MaxRows: int32(f.Limit)})
		return rows, postgres.Wrap("list blocks", err, nil)
	}
	found, err := s.q.BlockListOfCompany(ctx, blockq.BlockListOfCompanyParams{
		CompanyID: *f.CompanyID, Scope: f.Scope, BeforeID: f.BeforeID, MaxRows: int32(f.Limit),
	})
	rows := make([]Row, len(found))
	for i, row := range found {
		rows[i] = Row(row)
	}
	return rows, postgres.Wrap("list blocks of company", err, nil)
}

// ListByRecipient lists the blocks of a recipient, newest first: those of a company (nil: of every company), and those for all companies.
func (s *Service) ListByRecipient(ctx context.Context, companyID *int64, recipient string, scope *string) ([]Row, error) {
	found, err := s.q.BlocksOfNumber(ctx, blockq.BlocksOfNumberParams{Recipient: recipient, CompanyID: companyID, Scope: scope})
	rows := make([]Row, len(found))
	for i, row := range found {
		rows[i] = Row(row)
	}
	return rows, postgres.Wrap("list blocks of number", err, nil)
}

// Get returns the block of a recipient with an id that Put returned. Fault: block.not_found.
func (s *Service) Get(ctx context.Context, companyID *int64, recipient string, id int64) (Row, error) {
	rows, err := s.ListByRecipient(ctx, companyID, recipient, nil)
	if err != nil {
		return Row{}, err
	}
	for _, row := range rows {
		if row.ID == id {
			return row, nil
		}
	}
	return Row{}, fault.New(fault.NotFound, fault.BlockNotFound)
}

// DeleteExpired deletes blocks that have expired, in batches. It returns the number of deleted rows.
func (s *Service) DeleteExpired(ctx context.Context) (int, error) {
	return postgres.InBatches(deleteBatch, func() (int64, error) {
		n, err := s.q.BlocksDeleteExpired(ctx, deleteBatch)
		return n, postgres.Wrap("delete expired blocks", err, nil)
	})
}

// Erase removes the numbers of a person from its blocks. The blocks stay, so that the person gets no messages that it did not want.
func (s *Service) Erase(ctx context.Context, p *erase.Person) (erase.Counts, error) {
	err := s.q.ErasureBlockRequests(ctx, blockq.ErasureBlockRequestsParams{CompanyID: p.CompanyID, Recipients: p.Recipients})
	if err != nil {
		return nil, postgres.Wrap("erase requests for blocks", err, nil)
	}
	n, err := s.q.ErasureBlocks(ctx, blockq.ErasureBlocksParams{CompanyID: p.CompanyID, Recipients: p.Recipients})
	return erase.Counts{erase.Blocks: n}, postgres.Wrap("erase blocks", err, nil)
}
