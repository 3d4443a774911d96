// Package verification sends codes to people, and checks the codes that people enter (V1). A code is stored only encrypted, and as a keyed hash.
package verification

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"

	"lksms/gen/verificationq"
	"lksms/internal/audience/contact"
	"lksms/internal/audience/notification"
	"lksms/internal/dispatch/address"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/dispatch/template"
	"lksms/internal/platform/erase"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/secret"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/setting"
	"lksms/internal/platform/sweep"
)

// Services are the services that verifications use.
type Services struct {
	Submissions   *submit.Service
	Tasks         *task.Service
	Contacts      *contact.Service
	Notifications *notification.Service
	Templates     *template.Service
	Directory     *directory.Service
	Settings      *setting.Service
	Secrets       *secret.Box
	Log           *slog.Logger
}

// Service sends and checks codes.
type Service struct {
	Services

	db      *postgres.DB
	q       *verificationq.Queries
	metrics metrics

	derivedFrom atomic.Int64 // number of codes from which the last run of Count derived suspects; 0: it did not run yet
}

// New returns a Service on db. It registers its metrics with reg.
func New(db *postgres.DB, services Services, reg prometheus.Registerer) *Service {
	return &Service{Services: services, db: db, q: verificationq.New(db), metrics: newMetrics(reg)}
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "expire-verifications", Interval: 5 * time.Second, Routine: true, Run: s.Expire},
		{Roles: servers.Roles{servers.Sweep}, Name: "count-verifications", Interval: 5 * time.Second, Routine: true, Run: s.Count},
		{Roles: servers.Roles{servers.Sweep}, Name: "delete-expired-verifications", Interval: 10 * time.Minute, Run: s.DeleteExpired},
	}
}

// These are the states of a verification.
const (
	Pending   = "pending"
	Approved  = "approved"
	Expired   = "expired"
	Exhausted = "exhausted" // too many wrong codes
	Cancelled = "cancelled" // by its system, or replaced by a newer verification
)

// Person is a person who gets a code. Exactly one of PhoneNumber, Email and UserID is set.
type Person struct {
	PhoneNumber, Email, UserID *string
	Region                     string // region of a PhoneNumber without country code; empty: the region of the company
	Channel                    string // channel for UserID; empty: sms
}

// recipient is the address of a person on a channel.
type recipient struct{ channel, address string }

// find returns the address of a person. Fault: request.invalid.
func (s *Service) find(ctx context.Context, companyID int64, p Person) (recipient, error) {
	field, channel, text := p.field(), directory.SMS, p.PhoneNumber
	if err := p.checkChoice(); err != nil {
		return recipient{}, err
	}
	switch field {
	case "email":
		channel, text = directory.Email, p.Email
	case "user_id":
		channel = cmp.Or(p.Channel, directory.SMS)
		if channel != directory.SMS {
			if _, err := s.Directory.GetChannel(ctx, channel); err != nil {
				return recipient{}, fault.OfField(err, directory.ErrNoChannel, "channel")
			}
		}
		all, err := s.Contacts.Addresses(ctx, companyID, channel, []string{*p.UserID})
		if err != nil {
			return recipient{}, err
		}
		if text = &all[0]; *text == "" {
			return recipient{}, fault.InvalidField(field, fault.NotThere, nil)
		}
	}
	region := p.Region
	if region == "" {
		var err error
		if region, err = s.Directory.DefaultRegion(ctx, &companyID); err != nil {
			return recipient{}, err
		}
	}
	number, err := address.Read(channel, *text, region)
	if err != nil {
		return recipient{}, fault.Rename(err, func(f fault.Field) string {
			if f.Name == address.Field(channel) {
				return field
			}
			return f.Name
		})
	}
	to := recipient{channel, number.E164}
	if address.FoldsCase(channel) {
		to.address = strings.ToLower(to.address)
	}
	return to, nil
}

// checkChoice returns request.invalid unless exactly one field names the person, and Channel fits this field.
func (p Person) checkChoice() error {
	switch {
	case p.PhoneNumber == nil && p.Email == nil && p.UserID == nil:
		return fault.InvalidField("phone_number", fault.Required, nil)
	case p.PhoneNumber != nil && p.Email != nil:
		return fault.InvalidField("email", fault.NotTogether, "phone_number")
	case p.UserID != nil && (p.PhoneNumber != nil || p.Email != nil):
		return fault.InvalidField("user_id", fault.NotTogether, p.field())
	case p.UserID == nil && p.Channel != "" && p.Channel != map[string]string{"phone_number": directory.SMS, "email": directory.Email}[p.field()]:
		return fault.InvalidField("channel", fault.NotTogether, p.field())
	}
	return nil
}

// field returns the field of the request that names the person.
func (p Person) field() string {
	switch {
	case p.PhoneNumber != nil:
		return "phone_number"
	case p.Email != nil:
		return "email"
	default:
		return "user_id"
	}
}

// newCode returns random digits.
func newCode(length int) (string, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(length)), nil))
	if err != nil {
		return "", fmt.Errorf("create code: %w", err)
	}
	return fmt.Sprintf("%0*d", length, n), nil
}

// newID returns the id of a verification. It cannot be guessed.
func newID() string { return "vrf_" + ulid.Make().String() + strings.ToUpper(rand.Text()[:10]) }

// Row is a verification.
type Row struct {
	verificationq.VerificationGetRow
	Task *task.Row // the last message of the verification; nil: it was dropped with its partition
}

// ChecksLeft returns how many more codes can be checked.
func (r Row) ChecksLeft() int { return max(0, int(r.MaxChecks-r.Checks)) }

// These are faults of verifications.
var (
	errNone    = fault.New(fault.NotFound, fault.VerificationNotFound)
	errNoKey   = fault.New(fault.Conflict, fault.VerificationNoKey)
	errExpired = fault.New(fault.Conflict, fault.VerificationExpired)
)

// Get returns a verification of the company of viewer, or of any company if viewer sees all. Fault: verification.not_found.
func (s *Service) Get(ctx context.Context, viewer task.Viewer, id string) (Row, error) {
	found, err := s.get(ctx, viewer.CompanyID, id)
	if err != nil {
		return Row{}, err
	}
	row := Row{VerificationGetRow: found}
	ofCompany := task.Viewer{CompanyID: viewer.CompanyID} // a colleague can have sent the code again
	last, err := s.Tasks.Get(ctx, ofCompany, found.TaskIds[len(found.TaskIds)-1])
	switch {
	case err == nil:
		row.Task = &last
	case !fault.Is(err, fault.TaskNotFound):
		return Row{}, err
	}
	return row, nil
}

// get returns a verification of a company; nil: of any company.
func (s *Service) get(ctx context.Context, companyID *int64, id string) (verificationq.VerificationGetRow, error) {
	row, err := s.q.VerificationGet(ctx, id)
	if err == nil && companyID != nil && row.CompanyID != *companyID {
		return verificationq.VerificationGetRow{}, errNone
	}
	if row.IsExpired {
		row.Status, row.EndedAt = Expired, &row.ExpiresAt
	}
	return row, postgres.Wrap("read verification", err, errNone)
}

// ended returns the fault of a verification that was not pending, or whose key the server does not have: verification.approved, verification.expired,
// verification.exhausted, verification.cancelled, verification.no_key or verification.not_found.
func (s *Service) ended(ctx context.Context, companyID int64, id string) error {
	row, err := s.get(ctx, &companyID, id)
	if err != nil {
		return err
	}
	switch row.Status {
	case Pending:
		return errNoKey
	case Approved:
		return fault.New(fault.Conflict, fault.VerificationApproved)
	case Exhausted:
		return fault.New(fault.Conflict, fault.VerificationExhausted)
	case Cancelled:
		return fault.New(fault.Conflict, fault.VerificationCancelled)
	default:
		return errExpired
	}
}

// Expire ends pending verifications that have expired, in batches, and takes their codes that no sender got out of the counts. It returns their number.
func (s *Service) Expire(ctx context.Context) (int, error) {
	return postgres.InBatches(batchSize, func() (int64, error) {
		var ids, taskIDs []string
		err := s.db.Tx(ctx, func(ctx context.Context) error {
			rows, err := s.q.VerificationsExpire(ctx, batchSize)
			if err != nil || len(rows) == 0 {
				return postgres.Wrap("expire verifications", err, nil)
			}
			for _, row := range rows {
				ids, taskIDs = append(ids, row.VerificationID), append(taskIDs, row.TaskIds...)
			}
			return s.uncount(ctx, ids, taskIDs)
		})
		if err != nil {
			return 0, err
		}
		s.metrics.ended.WithLabelValues(Expired).Add(float64(len(ids)))
		return int64(len(ids)), nil
	})
}

// batchSize is the maximum number of rows that one statement of a sweep changes.
const batchSize = 1000

// DeleteExpired deletes verifications that are older than the setting verification.keep_days, old counts, and safe prefixes that have ended, in batches.
// It returns the number of deleted rows.
func (s *Service) DeleteExpired(ctx context.Context) (int, error) {
	values, err := s.Settings.Get(ctx)
	if err != nil {
		return 0, err
	}
	keep := time.Duration(values.Verification.KeepDays) * 24 * time.Hour
	total := 0
	for _, run := range []func() (int64, error){
		func() (int64, error) {
			return s.q.VerificationsDeleteExpired(ctx, verificationq.VerificationsDeleteExpiredParams{BatchSize: batchSize, Keep: keep})
		},
		func() (int64, error) { return s.q.VerificationHoursDeleteExpired(ctx, batchSize) },
		func() (int64, error) { return s.q.SafeDeleteExpired(ctx, batchSize) },
	} {
		n, err := postgres.InBatches(batchSize, run)
		if total += n; err != nil {
			return total, postgres.Wrap("delete expired verifications", err, nil)
		}
	}
	return total, nil
}

// Erase cancels the pending verifications of a person, and deletes all verifications of the person.
func (s *Service) Erase(ctx context.Context, p *erase.Person) (erase.Counts, error) {
	n, err := s.q.ErasureVerificationsCancel(ctx, verificationq.ErasureVerificationsCancelParams{CompanyID: p.CompanyID, Recipients: p.Lowered()})
	if err == nil {
		s.metrics.ended.WithLabelValues(Cancelled).Add(float64(n))
		err = s.q.ErasureVerifications(ctx, verificationq.ErasureVerificationsParams{CompanyID: p.CompanyID, Recipients: p.Lowered()})
	}
	return nil, postgres.Wrap("erase verifications", err, nil)
}

// seal returns a code in its stored forms. Fault: verification.no_key.
func (s *Service) seal(id, code string) (sealed, digest string, err error) {
	sealed, err = s.Secrets.Encrypt(code, ownerOf(id))
	if errors.Is(err, secret.ErrNoKey) {
		return "", "", errNoKey
	}
	if err != nil {
		return "", "", err //nolint:wrapcheck // Encrypt has no other error
	}
	digests, err := s.Secrets.Digests(code, ownerOf(id))
	if err != nil {
		return "", "", err //nolint:wrapcheck // says what it is
	}
	return sealed, digests[0], nil
}

// ownerOf returns the name under which the code of a verification is encrypted.
func ownerOf(id string) string { return "verification " + id }

// RotateSecrets encrypts the codes of pending verifications again with the first key of box. It returns the number of changed codes.
func RotateSecrets(ctx context.Context, db *postgres.DB, box *secret.Box) (int, error) {
	q := verificationq.New(db)
	rows, err := q.VerificationSealedList(ctx)
	if err != nil {
		return 0, postgres.Wrap("read codes", err, nil)
	}
	return secret.RenewAll(box, rows, func(row verificationq.VerificationSealedListRow) (encrypted, owner string) {
		return row.Sealed, ownerOf(row.VerificationID)
	}, func(row verificationq.VerificationSealedListRow, renewed string) (int64, error) {
		code, err := box.Decrypt(renewed, ownerOf(row.VerificationID))
		if err != nil {
			return 0, err
		}
		digests, err := box.Digests(code, ownerOf(row.VerificationID))
		if err != nil {
			return 0, err
		}
		return q.VerificationSealedStore(ctx, verificationq.VerificationSealedStoreParams{
			VerificationID: row.VerificationID, Before: row.Sealed, Sealed: renewed, Digest: digests[0],
		})
	})
}
