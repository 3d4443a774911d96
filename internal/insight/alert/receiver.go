package alert

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"

	"lksms/gen/alertq"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/secret"
)

// These are the kinds of receivers.
const (
	ByNotification = "notification"
	ByAlertmanager = "alertmanager"
)

// EscalateSeconds is the default of Receiver.EscalateSeconds.
const EscalateSeconds int64 = 300

// Receiver contains the fields of a receiver that callers can change.
type Receiver struct {
	Name, Language    string
	CompanyNo         *string // only for the kind notification, like Channels and UserIDs
	Channels, UserIDs []string
	URL               *string // only for the kind alertmanager
	Authorization     *string // nil: the stored header does not change
	IsOpen            bool    // true: removes the header Authorization
	EscalateSeconds   int64   // seconds until an unsent alert escalates; 0: never
}

var errNoReceiver = fault.New(fault.NotFound, fault.AlertReceiverNotFound)

// checkReceiver returns the company of a receiver. It returns the fault request.invalid if a field that the kind requires is missing, or if a field is set that
// the kind does not have.
func (s *Service) checkReceiver(ctx context.Context, ofKind string, r *Receiver) (company *int64, err error) {
	isPeople := ofKind == ByNotification
	for _, f := range []struct {
		name          string
		isGiven, isIn bool
		isNeeded      bool
	}{
		{"company_no", r.CompanyNo != nil, isPeople, true}, {"channels", r.Channels != nil, isPeople, true},
		{"user_ids", r.UserIDs != nil, isPeople, true}, {"url", r.URL != nil, !isPeople, true},
		{"authorization", r.Authorization != nil, !isPeople, false},
	} {
		if f.isGiven && !f.isIn {
			return nil, fault.InvalidField(f.name, fault.UnknownField, nil)
		}
		if !f.isGiven && f.isIn && f.isNeeded {
			return nil, fault.InvalidField(f.name, fault.Required, nil)
		}
	}
	if !isPeople {
		if u, err := url.Parse(*r.URL); err != nil || u.Host == "" {
			return nil, fault.InvalidField("url", fault.WrongFormat, nil)
		}
		return nil, nil
	}
	found, err := s.q.AlertScopeFind(ctx, alertq.AlertScopeFindParams{CompanyNo: r.CompanyNo})
	if err != nil {
		return nil, postgres.Wrap("find company", err, nil)
	}
	if found.CompanyID == 0 {
		return nil, fault.InvalidField("company_no", fault.NotThere, nil)
	}
	missing, err := s.q.AlertChannelsMissing(ctx, r.Channels)
	if err != nil {
		return nil, postgres.Wrap("find channels", err, nil)
	}
	var wrong fault.Fields
	fault.InvalidItems(&wrong, "channels", r.Channels, fault.NotThere, nil, func(channel string) bool { return slices.Contains(missing, channel) })
	fault.RepeatedItems(&wrong, "channels", r.Channels)
	fault.RepeatedItems(&wrong, "user_ids", r.UserIDs)
	return &found.CompanyID, wrong.Err() //nolint:wrapcheck // the error is a fault
}

// SecretOwner returns the name to which an encrypted header is bound: the header of one receiver cannot be decrypted for another receiver.
func SecretOwner(id int64) string { return fmt.Sprintf("alert_receiver %d/authorization", id) }

// encrypt encrypts and stores the header Authorization of a receiver.
func (s *Service) encrypt(ctx context.Context, id int64, authorization string) error {
	encrypted, err := s.box.Encrypt(authorization, SecretOwner(id))
	if errors.Is(err, secret.ErrNoKey) {
		return fault.InvalidField("authorization", fault.NoSecretsKey, nil)
	}
	if err == nil {
		err = s.q.AlertReceiverSetAuthorization(ctx, alertq.AlertReceiverSetAuthorizationParams{ID: id, SealedAuthorization: &encrypted})
	}
	return postgres.Wrap("encrypt authorization", err, nil)
}

// CreateReceiver adds a receiver. Faults: request.invalid, limit.reached.
func (s *Service) CreateReceiver(ctx context.Context, ofKind string, r Receiver) (row ReceiverRow, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		company, err := s.checkReceiver(ctx, ofKind, &r)
		if err != nil {
			return err
		}
		id, err := s.q.AlertReceiverCreate(ctx, alertq.AlertReceiverCreateParams{
			Name: r.Name, Kind: ofKind, Language: r.Language, CompanyID: company, Channels: r.Channels, UserIds: r.UserIDs, Url: r.URL,
			EscalateSeconds: r.EscalateSeconds,
		})
		if err != nil {
			return postgres.Wrap("create receiver", err, nil)
		}
		if r.Authorization != nil {
			if err := s.encrypt(ctx, id, *r.Authorization); err != nil {
				return err
			}
		}
		row, err = s.Receiver(ctx, id)
		return err
	})
	return row, err
}

// Receiver returns one receiver, or the fault alert_receiver.not_found.
func (s *Service) Receiver(ctx context.Context, id int64) (ReceiverRow, error) {
	rows, err := s.q.AlertReceiverList(ctx, alertq.AlertReceiverListParams{BeforeID: math.MaxInt64, ID: &id, PageLimit: 1})
	return postgres.One(rows, err, "get receiver", errNoReceiver)
}

// Receivers lists up to limit receivers with ids smaller than `before`, newest first.
func (s *Service) Receivers(ctx context.Context, before int64, limit int) ([]ReceiverRow, error) {
	rows, err := s.q.AlertReceiverList(ctx, alertq.AlertReceiverListParams{BeforeID: before, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list receivers", err, nil)
}

// UpdateReceiver applies change to a receiver. If version is not nil, the receiver must have this version. Faults: alert_receiver.not_found, version.stale,
// request.invalid.
func (s *Service) UpdateReceiver(ctx context.Context, id int64, version *int64, change func(*Receiver)) (row ReceiverRow, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		var to Receiver
		read := func() (ReceiverRow, error) { return s.Receiver(ctx, id) }
		row, err = postgres.Patch(version, read, func(r ReceiverRow) int64 { return r.Version }, func(was ReceiverRow) (int64, error) {
			to = Receiver{
				Name: was.Name, Language: was.Language, CompanyNo: was.CompanyNo, Channels: was.Channels, UserIDs: was.UserIds, URL: was.Url,
				EscalateSeconds: was.EscalateSeconds,
			}
			change(&to)
			company, err := s.checkReceiver(ctx, was.Kind, &to)
			if err != nil {
				return 0, err
			}
			if was.SealedAuthorization != nil && to.Authorization == nil && !to.IsOpen && hostOf(was.Url) != hostOf(to.URL) {
				return 0, fault.InvalidField("authorization", fault.GiveAgain, nil) // the caller must send the header again; otherwise a caller could send the stored header to another host
			}
			n, err := s.q.AlertReceiverUpdate(ctx, alertq.AlertReceiverUpdateParams{
				ID: id, Version: was.Version, Name: to.Name, Language: to.Language, CompanyID: company, Channels: to.Channels,
				UserIds: to.UserIDs, Url: to.URL, EscalateSeconds: to.EscalateSeconds,
			})
			return n, postgres.Wrap("update receiver", err, nil)
		})
		switch {
		case err != nil:
			return err
		case to.Authorization != nil:
			err = s.encrypt(ctx, id, *to.Authorization)
		case to.IsOpen:
			err = s.q.AlertReceiverSetAuthorization(ctx, alertq.AlertReceiverSetAuthorizationParams{ID: id})
		}
		if err == nil {
			err = s.q.AlertReceiverRenewed(ctx, id)
		}
		if err != nil {
			return postgres.Wrap("update receiver", err, nil)
		}
		row, err = s.Receiver(ctx, id)
		return err
	})
	return row, err
}

// hostOf returns the scheme and the host of a URL.
func hostOf(address *string) string {
	u, err := url.Parse(optional.Value(address))
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// DeleteReceiver deletes a receiver. Faults: alert_receiver.not_found, in_use.
func (s *Service) DeleteReceiver(ctx context.Context, id int64) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.q.AlertReceiverLock(ctx, id); err != nil {
			return postgres.Wrap("lock receiver", err, nil)
		}
		n, err := s.q.AlertReceiverDelete(ctx, id)
		return postgres.Deleted(n, err, "delete receiver", func() (ReceiverRow, error) { return s.Receiver(ctx, id) })
	})
}

// Rotate encrypts the headers of all receivers again with the first key of box. It returns the number of changed headers.
func Rotate(ctx context.Context, db *postgres.DB, box *secret.Box) (int, error) {
	s := &Service{db: db, q: alertq.New(db), box: box}
	rows, err := s.Receivers(ctx, math.MaxInt64, math.MaxInt32)
	if err != nil {
		return 0, err
	}
	return secret.RenewAll(box, rows, func(row ReceiverRow) (encrypted, owner string) {
		return optional.Value(row.SealedAuthorization), SecretOwner(row.ID)
	}, func(row ReceiverRow, renewed string) (int64, error) {
		return s.q.AlertReceiverReencrypt(ctx, alertq.AlertReceiverReencryptParams{ID: row.ID, Before: row.SealedAuthorization, SealedAuthorization: &renewed})
	})
}
