// Package servers owns the servers of a database: their roles, and who of them is alive.
package servers

import (
	"fmt"
	"slices"
	"strings"
)

// Role is a part of the work that a server does. A server has one role, some or all, and several servers can have the same.
type Role string

// The roles.
const (
	API      Role = "api"      // answers submitters and administrators
	Claim    Role = "claim"    // answers sender apps: claims and reports
	Callback Role = "callback" // takes the callbacks of providers
	Push     Role = "push"     // sends through the providers of driven senders
	Sweep    Role = "sweep"    // does what comes due: retries, leases that ran out, batches, notifications, the end of old rows
	Watch    Role = "watch"    // counts what happened, and raises alerts
	Webhook  Role = "webhook"  // puts the events in order, and posts them to webhooks
	Console  Role = "console"  // serves the pages for people, and all that they call
)

// Roles are some roles.
type Roles []Role

// All returns all roles.
func All() Roles { return Roles{API, Claim, Callback, Push, Sweep, Watch, Webhook, Console} }

// needs are the roles without which another one does only half of its work. Push and Callback are needed only if Demand says so. API and Claim are
// in no list: their callers notice at once that nobody answers.
var needs = map[Role]Roles{
	API:      {Callback, Push, Sweep, Watch, Webhook}, // Webhook puts the events in order that programs pull from API and Console
	Claim:    {Sweep, Watch},
	Callback: {Sweep},
	Push:     {Callback, Sweep, Watch},
	Sweep:    {Push, Watch},
	Watch:    {Sweep}, // which sends the notifications of alerts
	Webhook:  {Watch},
	Console:  {Callback, Push, Sweep, Watch, Webhook},
}

// Demand is what the senders of a database need of its servers.
type Demand struct {
	Push     bool // a driven sender is on
	Callback bool // the provider of a sender calls back
}

// has reports whether a role is needed at all.
func (d Demand) has(role Role) bool {
	switch role {
	case Push:
		return d.Push
	case Callback:
		return d.Callback
	default:
		return true
	}
}

// ParseRoles returns the roles of a list of names; an empty list means all.
func ParseRoles(names []string) (Roles, error) {
	var roles Roles
	for _, name := range names {
		role := Role(strings.TrimSpace(name))
		if !slices.Contains(All(), role) {
			return nil, fmt.Errorf("%q is no role: the roles are %s", name, All())
		}
		if !slices.Contains(roles, role) {
			roles = append(roles, role)
		}
	}
	if roles == nil {
		return All(), nil
	}
	return roles, nil
}

// Has reports whether the roles contain one of others.
func (r Roles) Has(others ...Role) bool {
	return slices.ContainsFunc(others, func(o Role) bool { return slices.Contains(r, o) })
}

// String returns the names, with commas.
func (r Roles) String() string { return strings.Join(r.Names(), ", ") }

// Names returns the names.
func (r Roles) Names() []string {
	names := make([]string, len(r))
	for i, role := range r {
		names[i] = string(role)
	}
	return names
}

// Missing returns what r needs and alive does not have, in the order of All.
func (r Roles) Missing(alive Roles, demand Demand) Roles {
	var missing Roles
	for _, role := range All() {
		isNeeded := slices.ContainsFunc(r, func(own Role) bool { return needs[own].Has(role) })
		if isNeeded && demand.has(role) && !alive.Has(role) && !r.Has(role) {
			missing = append(missing, role)
		}
	}
	return missing
}
