package sender

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"lksms/gen/senderq"
	"lksms/internal/dispatch/callback"
	"lksms/internal/dispatch/driver"
	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/outbound"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/secret"
)

// Configs encrypts, decrypts and displays the configurations of driven senders.
type Configs struct {
	q   *senderq.Queries
	box *secret.Box
}

// NewConfigs returns Configs on db.
func NewConfigs(db *postgres.DB, box *secret.Box) *Configs {
	return &Configs{q: senderq.New(db), box: box}
}

// EncryptField encrypts a text for a field of a sender. Error: secret.ErrNoKey.
func (c *Configs) EncryptField(senderNo, field, text string) (string, error) {
	return c.box.Encrypt(text, secretOwner(senderNo, field))
}

// DecryptField decrypts the result of EncryptField for the same field.
func (c *Configs) DecryptField(senderNo, field, encrypted string) (string, error) {
	return c.box.Decrypt(encrypted, secretOwner(senderNo, field))
}

// hidden replaces a secret in responses. If a caller sends this text as the secret, the stored secret is kept.
const hidden = secret.Hidden

// secretOwner returns the owner of an encrypted field. A field that was encrypted for one owner cannot be decrypted for another field or sender.
func secretOwner(senderNo, field string) string { return senderNo + "/" + field }

// secretsOf returns the fields of a configuration that are never displayed.
func secretsOf(kind string) []string {
	return append([]string{callback.Secret}, driver.Secrets(kind)...)
}

// encryptedOf returns the fields of a configuration that are stored encrypted: its secrets, and its URLs, because a URL can contain a token.
func encryptedOf(kind string) []string { return append(secretsOf(kind), driver.Addresses(kind)...) }

// Opened is a configuration with decrypted secrets.
type Opened struct {
	Driver   []byte           // configuration of the driver
	Callback *callback.Config // nil: the sender accepts no callbacks
	Secret   string           // secret that proves callbacks
}

// Open decrypts the stored configuration of a sender.
func (c *Configs) Open(kind, senderNo string, stored []byte) (Opened, error) {
	decrypted, err := decryptConfig(c.box, kind, senderNo, stored)
	if err != nil {
		return Opened{}, err
	}
	return split(decrypted)
}

func split(decrypted []byte) (o Opened, err error) {
	o.Driver, o.Callback, o.Secret, err = callback.Split(decrypted)
	return o, err
}

// decryptConfig decrypts the encrypted fields of a configuration.
func decryptConfig(box *secret.Box, kind, senderNo string, config []byte) ([]byte, error) {
	return eachEncrypted(kind, config, func(name string, value json.RawMessage) (json.RawMessage, error) {
		return decryptField(box, senderNo, name, value)
	})
}

// decryptField decrypts a field. A field that is not encrypted was stored without a key, or before fields of this kind were encrypted.
func decryptField(box *secret.Box, senderNo, name string, value json.RawMessage) (json.RawMessage, error) {
	encrypted, ok := encryptedIn(value)
	if !ok {
		return value, nil
	}
	decrypted, err := box.Decrypt(encrypted, secretOwner(senderNo, name))
	return json.RawMessage(decrypted), err
}

// encryptedIn returns the encrypted text of a field, and whether the field is encrypted.
func encryptedIn(value json.RawMessage) (text string, ok bool) {
	ok = json.Unmarshal(value, &text) == nil && secret.IsEncrypted(text)
	return text, ok
}

// Mask masks the secrets of a configuration, and everything in its URLs except the host.
func (c *Configs) Mask(kind, senderNo string, config []byte) ([]byte, error) {
	return eachEncrypted(kind, config, func(name string, value json.RawMessage) (json.RawMessage, error) {
		if !driver.IsAddress(kind, name) {
			return json.RawMessage(`"` + hidden + `"`), nil
		}
		decrypted, err := decryptField(c.box, senderNo, name, value)
		if err != nil {
			return json.RawMessage(`"` + hidden + `"`), nil //nolint:nilerr // readers of the sender do not see that a key is missing
		}
		return json.Marshal(shownAddress(decrypted))
	})
}

// shownAddress returns the displayed form of a URL in JSON: credentials, path and query are masked, because they can contain a token.
func shownAddress(value json.RawMessage) string {
	var address string
	_ = json.Unmarshal(value, &address) // a value that is not a text is hidden
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return hidden
	}
	host, behind := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		host, behind = rest[:i], rest[i:]
	}
	credentials := strings.LastIndex(host, "@")
	if credentials < 0 && strings.Trim(behind, "/") == "" {
		return address
	}
	return scheme + "://" + host[credentials+1:] + "/" + hidden
}

// isHidden reports whether the value of a field is masked.
func isHidden(value json.RawMessage) bool {
	var text string
	return json.Unmarshal(value, &text) == nil && (text == hidden || strings.HasSuffix(text, "/"+hidden))
}

// holdsCredentials reports whether a URL in JSON possibly contains credentials: a query or a user.
func holdsCredentials(value json.RawMessage) bool { return bytes.ContainsAny(value, "?@") }

// dropSecrets removes the encrypted fields of a configuration.
func dropSecrets(kind string, config []byte) ([]byte, error) {
	return eachEncrypted(kind, config, func(string, json.RawMessage) (json.RawMessage, error) { return nil, nil })
}

// eachEncrypted replaces each existing field of a configuration that is stored encrypted by the result of replace. If replace returns nil, the field is removed.
func eachEncrypted(kind string, config []byte, replace func(name string, value json.RawMessage) (json.RawMessage, error)) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(config, &fields); err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	for _, name := range encryptedOf(kind) {
		value, found := fields[name]
		if !found {
			continue
		}
		replaced, err := replace(name, value)
		if err != nil {
			return nil, fmt.Errorf("config.%s: %w", name, err)
		}
		if fields[name] = replaced; replaced == nil {
			delete(fields, name)
		}
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("write config: %w", err)
	}
	return text, nil
}

// storedConfig is a configuration in its stored form.
type storedConfig struct {
	Kind   string
	Config []byte
}

// changed returns the configuration to store after a change. A nil config keeps the current configuration. The configuration of an app is not encrypted.
func (c *Configs) changed(was Row, kind string, config []byte) (changed []byte, err error) {
	switch {
	case kind == KindApp && config != nil:
		return config, nil
	case kind == KindApp:
		return dropSecrets(was.Kind, was.Config)
	}
	if config == nil {
		if config, err = c.Mask(was.Kind, was.SenderNo, was.Config); err != nil {
			return nil, err
		}
	}
	return c.checkAndEncrypt(kind, was.SenderNo, config, &storedConfig{Kind: was.Kind, Config: was.Config})
}

// checkAndEncrypt checks the configuration of a driven sender and encrypts its secrets for storage. Missing or masked secrets, and masked URLs, are copied from
// before, the stored configuration, which can be nil. The value null removes a secret. Secrets are not copied for another provider, and the callback secret is
// not copied for another proof method. Otherwise a caller that can change a sender, but not read its secrets, could send the secrets to another host. Faults:
// request.invalid.
func (c *Configs) checkAndEncrypt(kind, senderNo string, config []byte, before *storedConfig) ([]byte, error) {
	m := merging{kind: kind, fields: map[string]json.RawMessage{}}
	if err := json.Unmarshal(config, &m.fields); err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	for name := range m.fields {
		for _, encrypted := range encryptedOf(kind) {
			if name != encrypted && strings.EqualFold(name, encrypted) { // a driver would accept the field in this spelling, and the field would not be encrypted
				return nil, fault.InvalidField("config."+name, fault.UnknownField, nil)
			}
		}
	}
	m.takeOver(c.box, senderNo, before)
	if len(m.missing) > 0 {
		return nil, m.missingFault(before != nil)
	}
	parts, built, err := check(kind, m.fields)
	if err != nil {
		return nil, err
	}
	if err := review(parts, built); err != nil {
		return nil, err
	}
	if m.fields[callback.Secret] != nil && !slices.Contains(m.kept, callback.Secret) {
		if err := parts.Callback.CheckSecret(parts.Secret); err != nil {
			return nil, err
		}
	}
	if len(m.kept) > 0 {
		m.compare(parts, built)
	}
	if len(m.missing) > 0 {
		return nil, m.missingFault(true)
	}
	decrypted, err := json.Marshal(m.fields)
	if err != nil {
		return nil, fmt.Errorf("write config: %w", err)
	}
	encrypted, err := c.encrypt(kind, senderNo, decrypted)
	if err != nil {
		return nil, err
	}
	return eachEncrypted(kind, encrypted, func(name string, value json.RawMessage) (json.RawMessage, error) {
		if m.isStored(c.box, name) {
			return m.stored[name], nil
		}
		return value, nil
	})
}

// MissingFields returns the fields that a stored configuration lacks, or that can have no effect in it. The sender continues to work, but cannot be saved before
// these fields are corrected.
func (c *Configs) MissingFields(kind, senderNo string, stored []byte) []string {
	gaps := []string{}
	if kind == KindApp {
		return gaps
	}
	decrypted, err := c.Open(kind, senderNo, stored)
	if err != nil {
		return gaps // MissingFields does not report why the decryption failed
	}
	var missing *fault.Error
	if built, err := build(kind, decrypted); err == nil && errors.As(review(decrypted, built), &missing) {
		for _, f := range missing.Fields {
			gaps = append(gaps, f.Name)
		}
	}
	return gaps
}

// build returns a driver that sends no requests.
func build(kind string, parts Opened) (driver.Driver, error) {
	return driver.New(kind, parts.Driver, provider.Tools{Outbound: outbound.Policy{}, Log: slog.New(slog.DiscardHandler)})
}

// review returns a fault for a configuration that check accepts but that must not be saved.
func review(parts Opened, built driver.Driver) error {
	if err := driver.Review(built, parts.Callback.HasReceipts()); err != nil {
		return err //nolint:wrapcheck // the error is a fault
	}
	if parts.Callback == nil && parts.Secret != "" {
		return fault.InvalidField("config."+callback.Secret, fault.OnlyTogether, callback.Field)
	}
	return parts.Callback.Review() //nolint:wrapcheck // the error is a fault
}

// check splits a decrypted configuration, checks its callbacks, and builds its driver.
func check(kind string, fields map[string]json.RawMessage) (Opened, driver.Driver, error) {
	decrypted, err := json.Marshal(fields)
	if err != nil {
		return Opened{}, nil, fmt.Errorf("write config: %w", err)
	}
	parts, err := split(decrypted)
	if err != nil {
		return Opened{}, nil, err
	}
	if parts.Callback != nil {
		if err := parts.Callback.Check(parts.Secret); err != nil {
			return Opened{}, nil, err
		}
	}
	built, err := build(kind, parts)
	return parts, built, err
}

// merging is a new configuration with fields copied from the previous configuration.
type merging struct {
	kind    string
	fields  map[string]json.RawMessage // the given fields and the copied fields
	stored  map[string]json.RawMessage // the previous configuration in its stored form
	old     map[string]json.RawMessage // the previous configuration, decrypted; nil: no configuration of this kind exists, or its decryption failed
	kept    []string                   // names of the copied fields
	missing []string                   // names of masked fields that cannot be copied
}

// takeOver copies masked fields and missing secrets from the previous configuration.
func (m *merging) takeOver(box *secret.Box, senderNo string, before *storedConfig) {
	m.stored = map[string]json.RawMessage{}
	if before != nil && before.Kind == m.kind {
		_ = json.Unmarshal(before.Config, &m.stored) // valid JSON: the column is jsonb
		if decrypted, err := decryptConfig(box, m.kind, senderNo, before.Config); err == nil {
			_ = json.Unmarshal(decrypted, &m.old)
		}
	}
	for _, name := range encryptedOf(m.kind) {
		value, given := m.fields[name]
		was := m.old[name]
		switch {
		case string(value) == "null", name == callback.Secret && m.fields[callback.Field] == nil && (!given || isHidden(value)):
			delete(m.fields, name) // without callbacks, a stored secret has no effect
		case given && !isHidden(value) || !given && m.stored[name] == nil:
			continue
		case !driver.IsAddress(m.kind, name) && was != nil, given && was != nil && shownAddress(was) == shownAddress(value):
			m.fields[name] = was
			m.kept = append(m.kept, name)
		case !driver.IsAddress(m.kind, name) || given:
			m.missing = append(m.missing, name)
		}
	}
	isAddress := func(name string) bool { return driver.IsAddress(m.kind, name) }
	if slices.ContainsFunc(m.missing, isAddress) { // the masked URL belongs to another provider, so no secret is copied
		m.missing = append(m.missing, m.kept...)
	}
}

// isStored reports whether the stored form of a field is still correct: it has the current key and the current value. Such a field is not encrypted again,
// because the audit would record the field as changed.
func (m *merging) isStored(box *secret.Box, name string) bool {
	encrypted, ok := encryptedIn(m.stored[name])
	return ok && box.IsCurrent(encrypted) && bytes.Equal(m.old[name], m.fields[name])
}

// compare finds the fields that must not be copied: all fields if the provider changes, and the callback secret if the proof method changes.
func (m *merging) compare(parts Opened, built driver.Driver) {
	old, builtBefore, err := check(m.kind, m.old)
	switch {
	case err != nil || builtBefore.Target() != built.Target():
		m.missing = m.kept
	case parts.Callback != nil && old.Callback.Proof() != parts.Callback.Proof() && slices.Contains(m.kept, callback.Secret):
		m.missing = []string{callback.Secret}
	}
}

// missingFault returns the fault that lists the missing fields.
func (m *merging) missingFault(isChange bool) *fault.Error {
	rule := fault.Required
	if isChange {
		rule = fault.GiveAgain
	}
	all := &fault.Error{Kind: fault.Invalid, Reason: fault.RequestInvalid}
	slices.Sort(m.missing)
	for _, name := range m.missing {
		all.Fields = append(all.Fields, fault.Field{Name: "config." + name, Rule: rule})
	}
	return all
}

// encrypt encrypts the fields of a decrypted configuration.
func (c *Configs) encrypt(kind, senderNo string, decrypted []byte) ([]byte, error) {
	return eachEncrypted(kind, decrypted, func(name string, value json.RawMessage) (json.RawMessage, error) {
		if isOpen(kind, name, value) {
			return value, nil
		}
		encrypted, err := c.box.Encrypt(string(value), secretOwner(senderNo, name))
		if errors.Is(err, secret.ErrNoKey) {
			if driver.IsAddress(kind, name) && !holdsCredentials(value) {
				return value, nil
			}
			return nil, fault.InvalidField("config."+name, fault.NoSecretsKey, nil)
		}
		if err != nil {
			return nil, err
		}
		return json.Marshal(encrypted)
	})
}

// isOpen reports whether a field is displayed unmasked, because it is a URL that contains only a host.
func isOpen(kind, name string, value json.RawMessage) bool {
	return driver.IsAddress(kind, name) && !strings.HasSuffix(shownAddress(value), hidden)
}

// RotateSecrets encrypts again all fields that were not encrypted with the first key of box. It returns the number of changed configurations. Each configuration
// is stored with a separate statement. If a configuration changes meanwhile, RotateSecrets skips it.
func RotateSecrets(ctx context.Context, db *postgres.DB, box *secret.Box) (int, error) {
	c := NewConfigs(db, box)
	rows, err := c.q.SenderConfigs(ctx)
	if err != nil {
		return 0, fmt.Errorf("read configurations: %w", err)
	}
	changed := 0
	for _, row := range rows {
		current := true
		_, err := eachEncrypted(row.Kind, row.Config, func(name string, value json.RawMessage) (json.RawMessage, error) {
			encrypted, ok := encryptedIn(value)
			current = current && (ok && c.box.IsCurrent(encrypted) || !ok && isOpen(row.Kind, name, value))
			return value, nil
		})
		if err != nil || current {
			if err != nil {
				return changed, fmt.Errorf("sender %s: %w", row.SenderNo, err)
			}
			continue
		}
		decrypted, err := decryptConfig(c.box, row.Kind, row.SenderNo, row.Config)
		if err != nil {
			return changed, fmt.Errorf("sender %s: %w", row.SenderNo, err)
		}
		encrypted, err := c.encrypt(row.Kind, row.SenderNo, decrypted)
		if err != nil {
			return changed, fmt.Errorf("sender %s: %w", row.SenderNo, err)
		}
		n, err := c.q.SenderReencrypt(ctx, senderq.SenderReencryptParams{SenderNo: row.SenderNo, Version: row.Version, Config: encrypted})
		if err != nil {
			return changed, postgres.Wrap("store encrypted configuration", err, nil)
		}
		changed += int(n)
	}
	return changed, nil
}
