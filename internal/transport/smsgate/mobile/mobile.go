// Package mobile owns the phones with the SMSGate app that are senders. It registers phones, hands messages to them, and interprets the states that they
// report. A phone is an app sender with its own user. Claims, reports and receipts use package queue. Messages that phones receive are stored by package
// received.
//
// The handlers implement the protocol between the app and its server, according to the source code of the app. docs/senders.md lists the routes.
package mobile

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"lksms/gen/mobileq"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/received"
	"lksms/internal/dispatch/sender"
	"lksms/internal/dispatch/sensitive"
	"lksms/internal/platform/access"
	"lksms/internal/platform/characters"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/secret"
)

const (
	codeDigits = 12               // the app accepts only digits
	codeValid  = 10 * time.Minute // validity of a pairing code
	maxModel   = 128              // characters of a stored model name
)

// Services contains the other services that a Service uses.
type Services struct {
	Access   *access.Service
	Queue    *queue.Service
	Senders  *sender.Service
	Received *received.Service
	Secrets  *secret.Box
}

// Service registers phones, hands messages to them, and accepts their reports.
type Service struct {
	Services
	db      *postgres.DB
	q       *mobileq.Queries
	inParts *mobileq.Queries // for statements that read tasks by id

	sensitive sensitive.Box
}

// New returns a Service on db.
func New(db *postgres.DB, services Services) *Service {
	return &Service{
		Services: services, db: db, q: mobileq.New(db), inParts: mobileq.New(db.InPartitions()), sensitive: sensitive.NewBox(services.Secrets),
	}
}

// Code is a pairing code with which one phone can register.
type Code struct {
	Code  string
	Until time.Time
}

// Pair creates a pairing code for a sender. If simNumber is nil, the phone chooses the SIM. Faults: sender.not_found, sender.is_driven; request.invalid for a
// sender of a channel other than sms.
func (s *Service) Pair(ctx context.Context, senderNo string, simNumber *int16) (Code, error) {
	row, err := s.Senders.Get(ctx, nil, senderNo)
	if err != nil {
		return Code{}, err
	}
	if row.Kind != sender.KindApp {
		return Code{}, fault.New(fault.Conflict, fault.SenderIsDriven)
	}
	if row.Channel != directory.SMS {
		return Code{}, fault.InvalidField("sender_no", fault.NotAllowed, nil)
	}
	code, err := newCode()
	if err != nil {
		return Code{}, err
	}
	until, err := s.q.PhonePair(ctx, mobileq.PhonePairParams{SenderNo: senderNo, CodeHash: hashOf(code), ValidFor: codeValid, SimNumber: simNumber})
	return Code{code, until}, postgres.Wrap("open code of phone", err, fault.New(fault.NotFound, fault.SenderNotFound))
}

func newCode() (string, error) {
	codes := new(big.Int).Exp(big.NewInt(10), big.NewInt(codeDigits), nil)
	n, err := rand.Int(rand.Reader, codes)
	if err != nil {
		return "", fmt.Errorf("make code: %w", err)
	}
	return fmt.Sprintf("%0*d", codeDigits, n), nil
}

func hashOf(code string) []byte {
	sum := sha256.Sum256([]byte(code))
	return sum[:]
}

// Registration contains the identity and credentials of a newly registered phone.
type Registration struct {
	DeviceNo string
	Username string
	Token    string // an API key of the user
	SenderNo string
}

// Applicant is a phone that requests its registration.
type Applicant struct {
	Code, Model         string
	SourceIP, RequestID string
}

// errWrongCode rolls back the transaction of a registration.
var errWrongCode = errors.New("no such code is open")

// Register registers a phone with a valid pairing code for the sender of this code. The user and token of the sender's previous phone are deleted. Faults:
// auth.required, auth.too_many_failures.
func (s *Service) Register(ctx context.Context, a Applicant) (made Registration, err error) {
	err = s.Access.TryCode(ctx, a.SourceIP, func(ctx context.Context) (isRight bool, err error) {
		if !isCode(a.Code) {
			return false, nil
		}
		made, err = s.register(ctx, a)
		if errors.Is(err, errWrongCode) {
			return false, nil
		}
		return err == nil, err
	})
	return made, err
}

func isCode(text string) bool {
	return len(text) == codeDigits && characters.IsDigits(text)
}

func (s *Service) register(ctx context.Context, a Applicant) (made Registration, err error) {
	made.DeviceNo = strings.ToLower(rand.Text()[:16])
	made.Username = "phone-" + made.DeviceNo
	ctx = postgres.As(ctx, postgres.Actor{Name: made.Username, Role: access.RoleSend, SourceIP: a.SourceIP, RequestID: a.RequestID})
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		opened, err := s.q.PhoneCodeUse(ctx, hashOf(a.Code))
		if postgres.IsNoRows(err) {
			return errWrongCode
		}
		if err != nil {
			return fmt.Errorf("use code of phone: %w", err)
		}
		made.SenderNo = opened.SenderNo
		if err := s.q.PhoneUserDelete(ctx, opened.SenderID); err != nil {
			return fmt.Errorf("delete previous phone: %w", err)
		}
		if _, err := s.Access.Create(ctx, access.User{Username: made.Username, Role: access.RoleSend, AppID: &made.SenderNo}); err != nil {
			return err
		}
		if _, made.Token, err = s.Access.CreateKey(ctx, made.Username, "SMSGate"); err != nil {
			return err
		}
		if err := s.q.PhoneLeasesDelete(ctx, opened.SenderID); err != nil {
			return fmt.Errorf("delete leases of phone: %w", err)
		}
		err = s.q.PhoneRegister(ctx, mobileq.PhoneRegisterParams{
			SenderID: opened.SenderID, DeviceNo: made.DeviceNo, Model: optional.NonZero(characters.First(postgres.Text(a.Model), maxModel)), Username: made.Username,
		})
		if err != nil {
			return fmt.Errorf("register phone: %w", err)
		}
		return sender.CloseBreakerOf(ctx, s.db, opened.SenderNo) // the previous phone could possibly not send
	})
	return made, err
}

// Phone is a registered phone.
type Phone struct {
	senderID     int64
	SenderNo     string
	DeviceNo     string
	SimNumber    *int16    // SIM that the phone uses; nil: the phone chooses
	ClaimedAt    time.Time // time of the phone's last claim of new messages; zero: never
	IsHooked     bool      // the phone has read the address of its posts
	Export       *Export   // request that the phone has not got yet; nil: no request
	encryptedKey string    // encrypted signing key; empty: the phone has no key yet
}

// Get returns the phone of a user. Faults: auth.forbidden if the user does not belong to a phone, sender.is_driven.
func (s *Service) Get(ctx context.Context, username string) (Phone, error) {
	row, err := s.q.PhoneGet(ctx, username)
	if err != nil {
		return Phone{}, postgres.Wrap("find phone", err, fault.New(fault.Forbidden, fault.AuthForbidden))
	}
	p := Phone{
		senderID: row.SenderID, SenderNo: row.SenderNo, DeviceNo: row.DeviceNo, SimNumber: row.SimNumber, ClaimedAt: optional.Value(row.ClaimedAt),
		IsHooked: row.IsHooked, encryptedKey: row.SigningKey,
	}
	if row.ExportSince != nil && row.ExportUntil != nil {
		p.Export = &Export{*row.ExportSince, *row.ExportUntil}
	}
	return p, s.Senders.CheckApp(ctx, row.SenderNo)
}
