// Package webhook owns webhooks and posts events of the feed to their addresses. It stores the progress and the failures of each webhook.
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

// These are the reasons why the service itself switched a webhook off.
const (
	gone    = "gone"    // the receiver answered 410
	failing = "failing" // all posts failed for maxFailing
)

// Service manages webhooks and posts events to them.
type Service struct {
	db      *postgres.DB
	q       *webhookq.Queries
	box     *secret.Box
	feed    *feed.Service
	log     *slog.Logger
	trusted *poster // posts to addresses that administrators configured
	public  *poster // posts to addresses that users configured
	ofUsers outbound.Policy
}

// Options configures a Service.
type Options struct {
	Outbound outbound.Policy // policy for addresses that administrators configured
	OfUsers  outbound.Policy // policy for addresses that other users configured
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

// Owner defines which events a webhook receives: the events that a user submitted for its company, the events of a company, or the events of all companies.
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
	if sorted := slices.Sorted(slices.Values(c.Events)); len(slices.Compact(sorted)) < len(c.Events) {
		return fault.InvalidField("events", fault.Duplicate, nil)
	}
	return nil
}

// checkReach returns the fault request.invalid if the host is an IP address that posts of this webhook are not allowed to reach. The address of a host name is
// checked at each connection.
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

// checkHeard returns the fault request.invalid if a webhook of a company or of a user lists events that it never receives. The fault names the item.
func checkHeard(events []string, company *int64) error {
	if company == nil {
		return nil
	}
	for i, one := range events {
		if feed.IsOfService(one) {
			return fault.InvalidField(fmt.Sprintf("events.%d", i), fault.OnlyOfAllCompanies, nil)
		}
	}
	return nil
}

// Create adds a webhook, which receives all later events. It returns the secret of the webhook, which is shown only once. Faults: request.invalid,
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

// sealOwner returns the owner with which a secret is sealed.
func sealOwner(id int64) string { return fmt.Sprintf("webhook_secret %d", id) }

// complete stores the first secret of a new webhook and returns the webhook. If posts are not allowed to reach its address, complete returns the fault of
// checkReach.
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
	sealed, err := s.box.Seal(key, sealOwner(id))
	if errors.Is(err, secret.ErrNoKey) {
		return fault.InvalidField("secret", fault.NoSecretsKey, nil)
	}
	if err != nil {
		return fmt.Errorf("seal secret: %w", err)
	}
	_, err = s.q.WebhookSecretSeal(ctx, webhookq.WebhookSecretSealParams{ID: id, Sealed: sealed})
	return postgres.Wrap("store secret", err, nil)
}

// Get returns a webhook, or the fault webhook.not_found. If user is non-nil, Get finds only webhooks of this user.
func (s *Service) Get(ctx context.Context, user *string, id int64) (Row, error) {
	rows, err := s.q.WebhookList(ctx, webhookq.WebhookListParams{BeforeID: math.MaxInt64, ID: &id, Username: user, PageLimit: 1})
	return postgres.One(rows, err, "get webhook", errNone)
}

// List returns up to limit webhooks with smaller ids than before, newest first.
func (s *Service) List(ctx context.Context, user *string, before int64, limit int) ([]Row, error) {
	rows, err := s.q.WebhookList(ctx, webhookq.WebhookListParams{BeforeID: before, Username: user, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list webhooks", err, nil)
}

// Update changes a webhook with change, and ends its pause. In the Settings that change receives, Events is nil: the webhook keeps its events unless change
// sets Events. If a webhook is switched on again, it continues with the event at which it stopped, if this event still exists. If version is not nil, the
// webhook must have this version. Faults: webhook.not_found, version.stale, request.invalid.
func (s *Service) Update(ctx context.Context, user *string, id int64, version *int64, change func(*Settings)) (row Row, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		read := func() (Row, error) { return s.Get(ctx, user, id) }
		row, err = postgres.Patch(version, read, func(r Row) int64 { return r.Version }, func(was Row) (int64, error) {
			c := Settings{URL: was.Url, Description: was.Description, Status: was.Status}
			change(&c)
			// Only new events are checked: webhooks that were stored before this check existed can still be changed.
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
			if was.Form == Smsgate && !slices.Equal(c.Events, was.Events) { // the receiver of this form expects one event
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

// maxSecrets is the maximum number of old secrets of a webhook that still sign posts, in addition to the new secret.
const maxSecrets = 4

// Rotate creates a new secret of a webhook and returns it. The previous secret still signs for overlap. Fault: webhook.not_found.
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

// replaceSecret sets a new secret of a webhook, in the transaction of ctx. The previous secret still signs for overlap. Fault: webhook.not_found.
func (s *Service) replaceSecret(ctx context.Context, id int64, key string, overlap time.Duration) error {
	if _, err := s.q.WebhookHold(ctx, id); err != nil {
		return postgres.Wrap("lock webhook", err, errNone)
	}
	if err := s.q.WebhookSecretsExpire(ctx, webhookq.WebhookSecretsExpireParams{WebhookID: id, Overlap: overlap, Most: maxSecrets}); err != nil {
		return postgres.Wrap("replace secret", err, nil)
	}
	if err := s.addSecret(ctx, id, key); err != nil {
		return err
	}
	return postgres.Wrap("note rotation", s.q.WebhookRotated(ctx, id), nil)
}

// secretsOf returns the secrets that sign posts of a webhook. A secret that cannot be opened, because a key is missing, is skipped.
func (s *Service) secretsOf(ctx context.Context, id int64) (keys []string, err error) {
	rows, err := s.q.WebhookSecrets(ctx, id)
	if err != nil {
		return nil, postgres.Wrap("read secrets", err, nil)
	}
	for _, row := range rows {
		key, err := s.box.Open(row.Sealed, sealOwner(row.ID))
		if err != nil {
			s.log.ErrorContext(ctx, "a secret of a webhook cannot be opened", "webhook_id", id, "error", err)
			continue
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// posterFor returns the poster for the address of a webhook. The address of a user without administrator rights must not reach the networks of the server.
func (s *Service) posterFor(isTrusted bool) *poster {
	if isTrusted {
		return s.trusted
	}
	return s.public
}

// StopUnused ends the unlimited recording for companies without webhooks: recording then ends after Kept. If an event waits for an event that was deleted,
// StopUnused makes the waiting event due. It returns the number of changed rows.
func (s *Service) StopUnused(ctx context.Context) (int, error) {
	kept, err := s.feed.Kept(ctx)
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
	freed, err := s.q.WebhookRetriesFreed(ctx)
	return int(n + freed), postgres.Wrap("free events", err, nil)
}

// RotateSecrets seals the secrets of all webhooks with the first key of box, and returns the number of changed secrets.
func RotateSecrets(ctx context.Context, db *postgres.DB, box *secret.Box) (int, error) {
	q := webhookq.New(db)
	rows, err := q.WebhookSecretList(ctx)
	if err != nil {
		return 0, postgres.Wrap("read secrets of webhooks", err, nil)
	}
	changed := 0
	for _, row := range rows {
		if box.IsCurrent(row.Sealed) {
			continue
		}
		opened, err := box.Open(row.Sealed, sealOwner(row.ID))
		var sealed string
		if err == nil {
			sealed, err = box.Seal(opened, sealOwner(row.ID))
		}
		if err != nil {
			return changed, fmt.Errorf("secret %d of a webhook: %w", row.ID, err)
		}
		n, err := q.WebhookSecretSeal(ctx, webhookq.WebhookSecretSealParams{ID: row.ID, Before: row.Sealed, Sealed: sealed})
		if err != nil {
			return changed, postgres.Wrap("store sealed secret", err, nil)
		}
		changed += int(n)
	}
	return changed, nil
}
