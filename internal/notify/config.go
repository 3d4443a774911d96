package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"lksms/gen/dbq"
	"lksms/internal/driver"
	"lksms/internal/fault"
	"lksms/internal/outbound"
	"lksms/internal/postgres"
	"lksms/internal/secret"
)

// Configs keeps the configurations of driven senders, their secrets sealed.
type Configs struct {
	q   *dbq.Queries
	box *secret.Box
}

// NewConfigs returns Configs on db.
func NewConfigs(db *postgres.DB, box *secret.Box) *Configs { return &Configs{q: dbq.New(db), box: box} }

// hidden stands for a secret in answers. Given back, it means the secret that is there.
const hidden = "***"

// place is what a sealed field is bound to: moved elsewhere it cannot be opened.
func place(senderNo, field string) string { return senderNo + "/" + field }

// secretsOf names the fields of a configuration that are kept sealed.
func secretsOf(kind string) []string {
	return append([]string{callbackSecret}, driver.Secrets(kind)...)
}

// config is a configuration whose secrets are open: what the driver is made of, and what is said of callbacks.
type config struct {
	driver   []byte
	callback *callback // nil: none are taken
	key      string    // that callbacks are proven with
}

// open opens what is stored of a sender.
func (c *Configs) open(kind, senderNo string, stored []byte) (config, error) {
	opened, err := openConfig(c.box, kind, senderNo, stored)
	if err != nil {
		return config{}, err
	}
	return splitCallback(opened)
}

// openConfig opens the secrets of a configuration.
func openConfig(box *secret.Box, kind, senderNo string, config []byte) ([]byte, error) {
	return eachSecret(kind, config, func(name string, value json.RawMessage) (json.RawMessage, error) {
		sealed, ok := sealedIn(value)
		if !ok {
			return value, nil
		}
		opened, err := box.Open(sealed, place(senderNo, name))
		return json.RawMessage(opened), err
	})
}

// sealedIn is the text that was sealed, if a field holds one.
func sealedIn(value json.RawMessage) (text string, ok bool) {
	ok = json.Unmarshal(value, &text) == nil && secret.IsSealed(text)
	return text, ok
}

// ShowConfig hides the secrets of a configuration.
func ShowConfig(kind string, config []byte) ([]byte, error) {
	return eachSecret(kind, config, func(string, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`"` + hidden + `"`), nil
	})
}

// eachSecret replaces the secret fields that a configuration has.
func eachSecret(kind string, config []byte, replace func(name string, value json.RawMessage) (json.RawMessage, error)) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(config, &fields); err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	for _, name := range secretsOf(kind) {
		value, there := fields[name]
		if !there {
			continue
		}
		replaced, err := replace(name, value)
		if err != nil {
			return nil, fmt.Errorf("config.%s: %w", name, err)
		}
		fields[name] = replaced
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("write config: %w", err)
	}
	return text, nil
}

// SealConfig checks the configuration of a driven sender and seals its secrets, so that it can be stored. A secret that is
// not given, or given as it is shown, is taken from before, what is stored now; that may be nil. Faults: request.invalid.
func (c *Configs) SealConfig(kind, senderNo string, config, before []byte) ([]byte, error) {
	if before == nil {
		before = []byte("{}")
	}
	old := map[string]json.RawMessage{}
	fields := map[string]json.RawMessage{}
	if err := errors.Join(json.Unmarshal(before, &old), json.Unmarshal(config, &fields)); err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	isSecretKept := false
	for _, name := range secretsOf(kind) {
		if value, given := fields[name]; (!given || string(value) == `"`+hidden+`"`) && old[name] != nil {
			fields[name] = old[name]
			isSecretKept = isSecretKept || name == callbackSecret
		}
	}
	merged, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("write config: %w", err)
	}
	opened, err := openConfig(c.box, kind, senderNo, merged)
	if err != nil {
		return nil, err
	}
	parts, err := splitCallback(opened)
	if err != nil {
		return nil, err
	}
	if parts.callback != nil {
		if err := parts.callback.check(parts.key); err != nil {
			return nil, err
		}
	}
	if fields[callbackSecret] != nil && !isSecretKept {
		if err := parts.checkSecret(); err != nil {
			return nil, err
		}
	}
	if _, err := driver.New(kind, parts.driver, driver.Tools{Outbound: outbound.Policy{}, Log: slog.New(slog.DiscardHandler)}); err != nil {
		return nil, err
	}
	return c.seal(kind, senderNo, opened)
}

func (c *Configs) seal(kind, senderNo string, opened []byte) ([]byte, error) {
	return eachSecret(kind, opened, func(name string, value json.RawMessage) (json.RawMessage, error) {
		sealed, err := c.box.Seal(string(value), place(senderNo, name))
		if errors.Is(err, secret.ErrNoKey) {
			return nil, fault.InvalidField("config."+name, fault.NoSecretsKey, nil)
		}
		if err != nil {
			return nil, err
		}
		return json.Marshal(sealed)
	})
}

// Rotate seals every secret with the first key that was not, and returns how many configurations that changed.
func (c *Configs) Rotate(ctx context.Context) (int, error) {
	rows, err := c.q.SenderConfigs(ctx)
	if err != nil {
		return 0, fmt.Errorf("read configurations: %w", err)
	}
	changed := 0
	for _, row := range rows {
		current := true
		_, err := eachSecret(row.Kind, row.Config, func(_ string, value json.RawMessage) (json.RawMessage, error) {
			sealed, ok := sealedIn(value)
			current = current && ok && c.box.IsCurrent(sealed)
			return value, nil
		})
		if err != nil || current {
			if err != nil {
				return changed, fmt.Errorf("sender %s: %w", row.SenderNo, err)
			}
			continue
		}
		opened, err := openConfig(c.box, row.Kind, row.SenderNo, row.Config)
		if err != nil {
			return changed, fmt.Errorf("sender %s: %w", row.SenderNo, err)
		}
		sealed, err := c.seal(row.Kind, row.SenderNo, opened)
		if err != nil {
			return changed, fmt.Errorf("sender %s: %w", row.SenderNo, err)
		}
		n, err := c.q.SenderReseal(ctx, dbq.SenderResealParams{SenderNo: row.SenderNo, Version: row.Version, Config: sealed})
		if err != nil {
			return changed, postgres.Wrap("seal anew", err, nil)
		}
		changed += int(n)
	}
	return changed, nil
}
