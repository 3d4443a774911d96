// Package webhook owns webhooks: it posts events of the feed to their addresses, and stores the progress and failures of each webhook.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"slices"
	"time"

	"lksms/gen/webhookq"
	"lksms/internal/events/feed"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/outbound"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/secret"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/sweep"
)

// These are the states of a webhook.
const (
	On  = "on"
	Off = "off"
)

// These are the reasons for which the service switches a webhook off.
const (
	gone    = "gone"    // the receiver answered 410
	failing = "failing" // all posts failed during the time maxFailing
)

// Service manages webhooks and posts events to them.
type Service struct {
	db      *postgres.DB
	q       *webhookq.Queries
	box     *secret.Box
	feed    *feed.Service
	log     *slog.Logger
	trusted *poster // posts to addresses that administrators have configured
	public  *poster // posts to addresses that other users have configured
	ofUsers outbound.Policy
}

// Options configures a Service.
type Options struct {
	Outbound outbound.Policy // policy for addresses that administrators have configured
	OfUsers  outbound.Policy // policy for addresses that other users have configured
	Log      *slog.Logger
}

// New returns a Service on db.
func New(db *postgres.DB, box *secret.Box, events *feed.Service, o Options) *Service {
	return &Service{db: db, q: webhookq.New(db), box: box, feed: events, log: o.Log, trusted: newPoster(o.Outbound), public: newPoster(o.OfUsers), ofUsers: o.OfUsers}
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Webhook}, Name: "post-webhooks", Interval: time.Second, Routine: true, Limit: 30 * time.Minute, Run: s.Deliver},
		{Roles: servers.Roles{servers.Webhook}, Name: "stop-unused-listeners", Interval: 10 * time.Minute, Run: s.StopUnused},
	}
}

// Settings contains the settings of a webhook that can be changed.
type Settings struct {
	URL         string
	Events      []string
	Description string
	Status      string
}

// Owner defines which events a webhook receives. With Username: the events of this user's submissions for the company. With only CompanyID: the events of the
// company. With neither: the events of all companies.
type Owner struct {
	CompanyID *int64
	Username  *string
}

var errNone = fault.New(fault.NotFound, fault.WebhookNotFound)

// check returns the fault request.invalid for invalid settings.
func (c Settings) check() error {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return fault.InvalidField("url", fault.WrongFormat, nil)
	}
	var wrong fault.Fields
	fault.RepeatedItems(&wrong, "events", c.Events)
	return wrong.Err() //nolint:wrapcheck // the error is a fault
}

// checkReach returns the fault request.invalid if the host is an IP address that the posts of the webhook must not reach. The address of a host name is checked
// later, at each connection.
func (s *Service) checkReach(row Row) error {
	u, err := url.Parse(row.Url)
	if err != nil {
		return fmt.Errorf("read address of webhook: %w", err) // impossible: Settings.check has parsed the same URL
	}
	if row.IsTrusted {
		return nil
	}
	switch address, isAddress := outbound.AddressOf(u.Hostname()); {
	case isAddress && !address.IsValid():
		return fault.InvalidField("url", fault.WrongFormat, nil)
	case isAddress && !s.ofUsers.Permits(address):
		return fault.InvalidField("url", fault.NotPublic, nil)
	}
	return nil
}

// checkHeard returns the fault request.invalid if events contains a type that a webhook of one company or user never receives. The fault names all such
// elements of the list.
func checkHeard(events []string, company *int64) error {
	if company == nil {
		return nil
	}
	var wrong fault.Fields
	fault.InvalidItems(&wrong, "events", events, fault.OnlyOfAllCompanies, nil, feed.IsOfService)
	return wrong.Err() //nolint:wrapcheck // the error is a fault
}

// Create adds a webhook, which receives all later events. It returns the secret of the webhook as key; the secret is shown only once. Faults: request.invalid,
// limit.reached.
func (s *Service) Create(ctx context.Context, owner Owner, c Settings, by string) (row Row, key string, err error) {
	if err := c.check(); err != nil {
		return row, "", err
	}
	if err := checkHeard(c.Events, owner.CompanyID); err != nil {
		return row, "", err
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		_, last, err := s.feed.Listen(ctx, owner.CompanyID, true)
		if err != nil {
			return err
		}
		id, err := s.q.WebhookCreate(ctx, webhookq.WebhookCreateParams{
			CompanyID: owner.CompanyID, Username: owner.Username, Url: c.URL, Events: c.Events, Description: c.Description, CreatedBy: by, AfterID: last,
			Form: Standard,
		})
		if err != nil {
			return postgres.Wrap("create webhook", err, nil)
		}
		key = newSecret()
		row, err = s.complete(ctx, id, key)
		return err
	})
	return row, key, err
}

// secretOwner returns the name to which an encrypted secret is bound: it cannot be decrypted for another webhook secret.
func secretOwner(id int64) string { return fmt.Sprintf("webhook_secret %d", id) }

// complete stores the first secret of a new webhook, and returns the webhook. Faults: those of checkReach.
func (s *Service) complete(ctx context.Context, id int64, key string) (row Row, err error) {
	if err := s.addSecret(ctx, id, key); err != nil {
		return row, err
	}
	if row, err = s.Get(ctx, nil, id); err != nil {
		return row, err
	}
	return row, s.checkReach(row)
}

// addSecret stores a new secret of a webhook.
func (s *Service) addSecret(ctx context.Context, webhook int64, key string) error {
	id, err := s.q.WebhookSecretAdd(ctx, webhook)
	if err != nil {
		return postgres.Wrap("store secret", err, nil)
	}
	encrypted, err := s.box.Encrypt(key, secretOwner(id))
	if errors.Is(err, secret.ErrNoKey) {
		return fault.InvalidField("secret", fault.NoSecretsKey, nil)
	}
	if err != nil {
		return fmt.Errorf("encrypt secret: %w", err)
	}
	_, err = s.q.WebhookSecretStore(ctx, webhookq.WebhookSecretStoreParams{ID: id, Sealed: encrypted})
	return postgres.Wrap("store secret", err, nil)
}

// Get returns a webhook. If user is not nil, Get finds only webhooks of this user. Fault: webhook.not_found.
func (s *Service) Get(ctx context.Context, user *string, id int64) (Row, error) {
	rows, err := s.q.WebhookList(ctx, webhookq.WebhookListParams{BeforeID: math.MaxInt64, ID: &id, Username: user, PageLimit: 1})
	return postgres.One(rows, err, "get webhook", errNone)
}

// List returns up to limit webhooks with smaller ids than `before`, newest first.
func (s *Service) List(ctx context.Context, user *string, before int64, limit int) ([]Row, error) {
	rows, err := s.q.WebhookList(ctx, webhookq.WebhookListParams{BeforeID: before, Username: user, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list webhooks", err, nil)
}

// Update applies change to the settings of a webhook, and ends its pause. change receives Settings without Events: if it does not set Events, the webhook keeps
// its events. A webhook that is switched on again continues with the event at which it stopped, if this event still exists. If version is not nil, the webhook
// must have this version. Faults: webhook.not_found, version.stale, request.invalid.
func (s *Service) Update(ctx context.Context, user *string, id int64, version *int64, change func(*Settings)) (row Row, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		read := func() (Row, error) { return s.Get(ctx, user, id) }
		row, err = postgres.Patch(version, read, func(r Row) int64 { return r.Version }, func(was Row) (int64, error) {
			c := Settings{URL: was.Url, Description: was.Description, Status: was.Status}
			change(&c)
			// Only new events are checked. Webhooks that are older than this check can still be changed.
			if err := checkHeard(c.Events, was.CompanyID); err != nil {
				return 0, err
			}
			if c.Events == nil {
				c.Events = was.Events
			}
			if err := c.check(); err != nil {
				return 0, err
			}
			changed := was
			if changed.Url = c.URL; c.URL != was.Url {
				if err := s.checkReach(changed); err != nil {
					return 0, err
				}
			}
			if was.Form == Smsgate && !slices.Equal(c.Events, was.Events) { // a receiver of this form expects one fixed event
				return 0, fault.InvalidField("events", fault.NotAllowed, was.Events)
			}
			if c.Status == On {
				if _, _, err := s.feed.Listen(ctx, was.CompanyID, true); err != nil {
					return 0, err
				}
			}
			n, err := s.q.WebhookUpdate(ctx, webhookq.WebhookUpdateParams{
				ID: id, Version: was.Version, Url: c.URL, Events: c.Events, Description: c.Description, Status: c.Status,
			})
			if err == nil && n > 0 {
				err = s.q.WebhookRetriesNow(ctx, id)
			}
			return n, postgres.Wrap("update webhook", err, nil)
		})
		return err
	})
	return row, err
}

// Delete deletes a webhook with all its waiting events. Fault: webhook.not_found.
func (s *Service) Delete(ctx context.Context, user *string, id int64) error {
	if _, err := s.Get(ctx, user, id); err != nil {
		return err
	}
	n, err := s.q.WebhookDelete(ctx, id)
	return postgres.DeletedOne(n, err, "delete webhook", errNone)
}

// maxSecrets is the maximum number of previous secrets of a webhook that still sign its posts.
const maxSecrets = 4

// Rotate creates a new secret of a webhook and returns it. The previous secret also signs posts until overlap has passed. Fault: webhook.not_found.
func (s *Service) Rotate(ctx context.Context, user *string, id int64, overlap time.Duration) (row Row, key string, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.Get(ctx, user, id); err != nil {
			return err
		}
		key = newSecret()
		if err := s.replaceSecret(ctx, id, key, overlap); err != nil {
			return err
		}
		row, err = s.Get(ctx, nil, id)
		return err
	})
	return row, key, err
}

// replaceSecret sets a new secret of a webhook in the transaction of ctx. The previous secret also signs posts until overlap has passed. Fault:
// webhook.not_found.
func (s *Service) replaceSecret(ctx context.Context, id int64, key string, overlap time.Duration) error {
	if _, err := s.q.WebhookHold(ctx, id); err != nil {
		return postgres.Wrap("lock webhook", err, errNone)
	}
	if err := s.q.WebhookSecretsExpire(ctx, webhookq.WebhookSecretsExpireParams{WebhookID: id, Overlap: overlap, MaxSecrets: maxSecrets}); err != nil {
		return postgres.Wrap("replace secret", err, nil)
	}
	if err := s.addSecret(ctx, id, key); err != nil {
		return err
	}
	return postgres.Wrap("record rotation", s.q.WebhookRotated(ctx, id), nil)
}

// secretsOf returns the secrets that sign the posts of a webhook. It skips a secret that cannot be decrypted because its key is missing.
func (s *Service) secretsOf(ctx context.Context, id int64) (keys []string, err error) {
	rows, err := s.q.WebhookSecrets(ctx, id)
	if err != nil {
		return nil, postgres.Wrap("read secrets", err, nil)
	}
	for _, row := range rows {
		key, err := s.box.Decrypt(row.Sealed, secretOwner(row.ID))
		if err != nil {
			s.log.ErrorContext(ctx, "a secret of a webhook cannot be decrypted", "webhook_id", id, "error", err)
			continue
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// posterFor returns the poster for a webhook. An address that a user without administrator rights has configured must not reach the networks of the server.
func (s *Service) posterFor(isTrusted bool) *poster {
	if isTrusted {
		return s.trusted
	}
	return s.public
}

// StopUnused sets an end time for the recording of events of companies whose webhooks are all off or deleted: recording ends after the time Retention of the
// feed. It also makes events due that wait for a deleted event. It returns the number of changed rows.
func (s *Service) StopUnused(ctx context.Context) (int, error) {
	kept, err := s.feed.Retention(ctx)
	if err != nil {
		return 0, err
	}
	var n int64
	err = s.db.Tx(ctx, func(ctx context.Context) (err error) {
		if _, err = s.q.WebhookListenersHold(ctx); err != nil {
			return err
		}
		n, err = s.q.WebhookListenersEnd(ctx, kept)
		return err
	})
	if err != nil {
		return 0, postgres.Wrap("end listeners", err, nil)
	}
	freed, err := s.q.WebhookRetriesFreeAll(ctx)
	return int(n + freed), postgres.Wrap("free events", err, nil)
}

// RotateSecrets encrypts the secrets of all webhooks again with the first key of box. It returns the number of changed secrets.
func RotateSecrets(ctx context.Context, db *postgres.DB, box *secret.Box) (int, error) {
	q := webhookq.New(db)
	rows, err := q.WebhookSecretList(ctx)
	if err != nil {
		return 0, postgres.Wrap("read secrets of webhooks", err, nil)
	}
	return secret.RenewAll(box, rows, func(row webhookq.WebhookSecretListRow) (encrypted, owner string) {
		return row.Sealed, secretOwner(row.ID)
	}, func(row webhookq.WebhookSecretListRow, renewed string) (int64, error) {
		return q.WebhookSecretStore(ctx, webhookq.WebhookSecretStoreParams{ID: row.ID, Before: row.Sealed, Sealed: renewed})
	})
}
