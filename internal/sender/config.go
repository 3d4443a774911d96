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

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/outbound"
	"lksms/internal/postgres"
	"lksms/internal/push/driver"
	"lksms/internal/receipt/callback"
	"lksms/internal/secret"
)

// Configs keeps the configurations of driven senders, their secrets sealed.
type Configs struct {
	q   *dbq.Queries
	box *secret.Box
}

// NewConfigs returns Configs on db.
func NewConfigs(db *postgres.DB, box *secret.Box) *Configs { return &Configs{q: dbq.New(db), box: box} }

// SealField seals a text that belongs to a field of a sender. Error: secret.ErrNoKey.
func (c *Configs) SealField(senderNo, field, text string) (string, error) {
	return c.box.Seal(text, place(senderNo, field))
}

// OpenField opens what SealField sealed.
func (c *Configs) OpenField(senderNo, field, sealed string) (string, error) {
	return c.box.Open(sealed, place(senderNo, field))
}

// hidden stands for a secret in answers. Given back, it means the secret that is there.
const hidden = "***"

// place is what a sealed field is bound to: moved elsewhere it cannot be opened.
func place(senderNo, field string) string { return senderNo + "/" + field }

// secretsOf names the fields of a configuration that are shown to nobody.
func secretsOf(kind string) []string {
	return append([]string{callback.Secret}, driver.Secrets(kind)...)
}

// sealedOf names the fields of a configuration that are kept sealed: its secrets, and the address, which may hold a token.
func sealedOf(kind string) []string {
	if address := driver.Address(kind); address != "" {
		return append(secretsOf(kind), address)
	}
	return secretsOf(kind)
}

// Opened is a configuration whose secrets are open.
type Opened struct {
	Driver   []byte           // what the driver is made of
	Callback *callback.Config // nil: callbacks are not taken
	Secret   string           // by which callbacks are proven
}

// Open opens what is stored of a sender.
func (c *Configs) Open(kind, senderNo string, stored []byte) (Opened, error) {
	opened, err := openConfig(c.box, kind, senderNo, stored)
	if err != nil {
		return Opened{}, err
	}
	return split(opened)
}

func split(opened []byte) (o Opened, err error) {
	o.Driver, o.Callback, o.Secret, err = callback.Split(opened)
	return o, err
}

// openConfig opens what is sealed of a configuration.
func openConfig(box *secret.Box, kind, senderNo string, config []byte) ([]byte, error) {
	return eachSealed(kind, config, func(name string, value json.RawMessage) (json.RawMessage, error) {
		return openField(box, senderNo, name, value)
	})
}

// openField opens a field. One that is not sealed is from before it was to be, or was stored without a key.
func openField(box *secret.Box, senderNo, name string, value json.RawMessage) (json.RawMessage, error) {
	sealed, ok := sealedIn(value)
	if !ok {
		return value, nil
	}
	opened, err := box.Open(sealed, place(senderNo, name))
	return json.RawMessage(opened), err
}

// sealedIn is the text that was sealed, if a field holds one.
func sealedIn(value json.RawMessage) (text string, ok bool) {
	ok = json.Unmarshal(value, &text) == nil && secret.IsSealed(text)
	return text, ok
}

// Show hides the secrets of a configuration, and of its address all but the host.
func (c *Configs) Show(kind, senderNo string, config []byte) ([]byte, error) {
	return eachSealed(kind, config, func(name string, value json.RawMessage) (json.RawMessage, error) {
		if name != driver.Address(kind) {
			return json.RawMessage(`"` + hidden + `"`), nil
		}
		opened, err := openField(c.box, senderNo, name, value)
		if err != nil {
			return json.RawMessage(`"` + hidden + `"`), nil //nolint:nilerr // the key is gone; who may see the sender need not know that
		}
		return json.Marshal(shownAddress(opened))
	})
}

// shownAddress is what is shown of an address, a JSON text: credentials, path and query may hold a token.
func shownAddress(value json.RawMessage) string {
	var address string
	_ = json.Unmarshal(value, &address) // the driver checked it
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

// isHidden tells whether a field is given as it is shown.
func isHidden(value json.RawMessage) bool {
	var text string
	return json.Unmarshal(value, &text) == nil && (text == hidden || strings.HasSuffix(text, "/"+hidden))
}

// holdsCredentials tells whether an address, a JSON text, has a part that is there to hold them.
func holdsCredentials(value json.RawMessage) bool { return bytes.ContainsAny(value, "?@") }

// dropSecrets takes away what is kept sealed of a configuration.
func dropSecrets(kind string, config []byte) ([]byte, error) {
	return eachSealed(kind, config, func(string, json.RawMessage) (json.RawMessage, error) { return nil, nil })
}

// eachSealed replaces the fields that a configuration has and that are kept sealed; nil takes one away.
func eachSealed(kind string, config []byte, replace func(name string, value json.RawMessage) (json.RawMessage, error)) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(config, &fields); err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	for _, name := range sealedOf(kind) {
		value, there := fields[name]
		if !there {
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

// Stored is the configuration of a sender as it is stored.
type Stored struct {
	Kind   string
	Config []byte
}

// change returns the configuration that a sender is to have, to be stored; config nil: the one before. Of an app nothing is sealed.
func (c *Configs) change(before dbq.SenderListRow, newKind *string, config []byte) ([]byte, error) {
	kind := before.Kind
	if newKind != nil {
		kind = *newKind
	}
	switch {
	case kind == KindApp && (config != nil || before.Kind == KindApp):
		return config, nil
	case kind == KindApp:
		return dropSecrets(before.Kind, before.Config)
	}
	if config == nil {
		var err error
		if config, err = c.Show(before.Kind, before.SenderNo, before.Config); err != nil {
			return nil, err
		}
	}
	return c.Seal(kind, before.SenderNo, config, &Stored{Kind: before.Kind, Config: before.Config})
}

// Seal checks the configuration of a driven sender and seals its secrets, so that it can be stored. A secret that is not given,
// or given as it is shown, and an address that is given as it is shown, are taken from before, what is stored now; that may be nil. They
// are not taken over for another provider, and the secret of callbacks not for another proof: who may change a sender, and not see its
// secrets, could have them sent elsewhere. Faults: request.invalid.
func (c *Configs) Seal(kind, senderNo string, config []byte, before *Stored) ([]byte, error) {
	m := merging{kind: kind, fields: map[string]json.RawMessage{}}
	if err := json.Unmarshal(config, &m.fields); err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	for name := range m.fields {
		for _, sealed := range sealedOf(kind) {
			if name != sealed && strings.EqualFold(name, sealed) { // a driver would read it, and it would not be sealed
				return nil, fault.InvalidField("config."+name, fault.UnknownField, nil)
			}
		}
	}
	m.takeOver(c.box, senderNo, before)
	if len(m.lacking) > 0 {
		return nil, m.lack(before != nil)
	}
	parts, made, err := check(kind, m.fields)
	if err != nil {
		return nil, err
	}
	if m.fields[callback.Secret] != nil && !slices.Contains(m.kept, callback.Secret) {
		if err := parts.Callback.CheckSecret(parts.Secret); err != nil {
			return nil, err
		}
	}
	if len(m.kept) > 0 {
		m.compare(parts, made)
	}
	if len(m.lacking) > 0 {
		return nil, m.lack(true)
	}
	opened, err := json.Marshal(m.fields)
	if err != nil {
		return nil, fmt.Errorf("write config: %w", err)
	}
	return c.seal(kind, senderNo, opened)
}

// check makes the parts and the driver of a configuration that is open.
func check(kind string, fields map[string]json.RawMessage) (Opened, driver.Driver, error) {
	opened, err := json.Marshal(fields)
	if err != nil {
		return Opened{}, nil, fmt.Errorf("write config: %w", err)
	}
	parts, err := split(opened)
	if err != nil {
		return Opened{}, nil, err
	}
	if parts.Callback != nil {
		if err := parts.Callback.Check(parts.Secret); err != nil {
			return Opened{}, nil, err
		}
	}
	made, err := driver.New(kind, parts.Driver, driver.Tools{Outbound: outbound.Policy{}, Log: slog.New(slog.DiscardHandler)})
	return parts, made, err
}

// merging is a configuration that is given, and what it takes over of the one before.
type merging struct {
	kind    string
	fields  map[string]json.RawMessage // as given, with what was taken over
	old     map[string]json.RawMessage // the one before, open; nil: there is none of this kind, or it cannot be opened
	kept    []string                   // fields that were taken over
	lacking []string                   // fields that are hidden and cannot be taken over
}

// takeOver puts the hidden fields of the configuration before in the place of those that are not given.
func (m *merging) takeOver(box *secret.Box, senderNo string, before *Stored) {
	stored := map[string]json.RawMessage{}
	if before != nil && before.Kind == m.kind {
		_ = json.Unmarshal(before.Config, &stored) // of a jsonb column
		if opened, err := openConfig(box, m.kind, senderNo, before.Config); err == nil {
			_ = json.Unmarshal(opened, &m.old)
		}
	}
	for _, name := range sealedOf(m.kind) {
		value, given := m.fields[name]
		was := m.old[name]
		switch {
		case given && !isHidden(value) || !given && stored[name] == nil:
			continue
		case name != driver.Address(m.kind) && was != nil, given && was != nil && shownAddress(was) == shownAddress(value):
			m.fields[name] = was
			m.kept = append(m.kept, name)
		case name != driver.Address(m.kind) || given:
			m.lacking = append(m.lacking, name)
		}
	}
	if slices.Contains(m.lacking, driver.Address(m.kind)) { // of another provider
		m.lacking = append(m.lacking, m.kept...)
	}
}

// compare finds what was taken over and must not be: everything for another provider, the secret of callbacks for another proof.
func (m *merging) compare(parts Opened, made driver.Driver) {
	old, madeBefore, err := check(m.kind, m.old)
	switch {
	case err != nil || madeBefore.Target() != made.Target():
		if parts.Callback == nil { // it is of no use
			delete(m.fields, callback.Secret)
			m.kept = slices.DeleteFunc(m.kept, func(name string) bool { return name == callback.Secret })
		}
		m.lacking = m.kept
	case parts.Callback != nil && old.Callback.Proof() != parts.Callback.Proof() && slices.Contains(m.kept, callback.Secret):
		m.lacking = []string{callback.Secret}
	}
}

// lack is the fault that names the fields that are to be given.
func (m *merging) lack(isChange bool) *fault.Error {
	rule := fault.Required
	if isChange {
		rule = fault.GiveAgain
	}
	all := &fault.Error{Kind: fault.Invalid, Reason: fault.RequestInvalid}
	slices.Sort(m.lacking)
	for _, name := range m.lacking {
		all.Fields = append(all.Fields, fault.Field{Name: "config." + name, Rule: rule})
	}
	return all
}

func (c *Configs) seal(kind, senderNo string, opened []byte) ([]byte, error) {
	return eachSealed(kind, opened, func(name string, value json.RawMessage) (json.RawMessage, error) {
		if isOpen(kind, name, value) {
			return value, nil
		}
		sealed, err := c.box.Seal(string(value), place(senderNo, name))
		if errors.Is(err, secret.ErrNoKey) {
			if name == driver.Address(kind) && !holdsCredentials(value) {
				return value, nil
			}
			return nil, fault.InvalidField("config."+name, fault.NoSecretsKey, nil)
		}
		if err != nil {
			return nil, err
		}
		return json.Marshal(sealed)
	})
}

// isOpen tells of a field that it is shown as it is: an address of a host and nothing else.
func isOpen(kind, name string, value json.RawMessage) bool {
	return name == driver.Address(kind) && !strings.HasSuffix(shownAddress(value), hidden)
}

// Rotate seals everything with the first key that was not, and returns how many configurations that changed.
func (c *Configs) Rotate(ctx context.Context) (int, error) {
	rows, err := c.q.SenderConfigs(ctx)
	if err != nil {
		return 0, fmt.Errorf("read configurations: %w", err)
	}
	changed := 0
	for _, row := range rows {
		current := true
		_, err := eachSealed(row.Kind, row.Config, func(name string, value json.RawMessage) (json.RawMessage, error) {
			sealed, ok := sealedIn(value)
			current = current && (ok && c.box.IsCurrent(sealed) || !ok && isOpen(row.Kind, name, value))
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
