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

// needs are the roles without which another one does only half of its work.
var needs = map[Role]Roles{
	API: {Sweep, Watch, Webhook}, Claim: {Sweep, Watch}, Callback: {Sweep}, Push: {Sweep, Watch}, Sweep: {Watch}, Webhook: {Watch},
	Console: {Sweep, Watch, Webhook}, // API and Console let programs pull events, which Webhook puts in order
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
func (r Roles) Missing(alive Roles) Roles {
	var missing Roles
	for _, role := range All() {
		isNeeded := slices.ContainsFunc(r, func(own Role) bool { return needs[own].Has(role) })
		if isNeeded && !alive.Has(role) && !r.Has(role) {
			missing = append(missing, role)
		}
	}
	return missing
}
