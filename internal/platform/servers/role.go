// Package servers records the servers of a database: their roles, and which servers are alive.
package servers

import (
	"fmt"
	"slices"
	"strings"
)

// Role is a part of the work of a server. A server has one or more roles, and several servers can have the same role.
type Role string

// These are the roles.
const (
	API      Role = "api"      // answers submitters and administrators
	Claim    Role = "claim"    // answers sender apps: claims and reports
	Callback Role = "callback" // receives the callbacks of providers
	Push     Role = "push"     // sends through the providers of driven senders
	Sweep    Role = "sweep"    // runs periodic jobs: retries, expired leases, batches, notifications, the deletion of old rows
	Watch    Role = "watch"    // counts events, and raises alerts
	Webhook  Role = "webhook"  // orders the events, and posts them to webhooks
	Console  Role = "console"  // serves the console and the operations that it calls
	SMPP     Role = "smpp"     // accepts messages over SMPP, and sends receipts and received messages to the programs that bind
)

// Roles is a list of roles.
type Roles []Role

// All returns all roles.
func All() Roles { return Roles{API, Claim, Callback, Push, Sweep, Watch, Webhook, Console, SMPP} }

// needs lists, for each role, the roles without which its work is incomplete. Push and Callback are needed only if Demand requires them. No list contains API,
// Claim or SMPP: if one of these roles is missing, callers notice at once, because no server answers.
var needs = map[Role]Roles{
	API:      {Callback, Push, Sweep, Watch, Webhook}, // Webhook orders the events that programs pull from API and Console
	Claim:    {Sweep, Watch},
	Callback: {Sweep},
	Push:     {Callback, Sweep, Watch},
	Sweep:    {Push, Watch},
	Watch:    {Sweep}, // Sweep sends the notifications of alerts
	Webhook:  {Watch},
	Console:  {Callback, Push, Sweep, Watch, Webhook},
	SMPP:     {Callback, Push, Sweep, Watch, Webhook}, // Webhook orders the events from which receipts are made
}

// Demand states which roles the senders of a database need.
type Demand struct {
	Push     bool // a driven sender is switched on
	Callback bool // the provider of a sender uses callbacks
}

// has reports whether the senders need a role.
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

// Has reports whether r contains at least one of the wanted roles.
func (r Roles) Has(wanted ...Role) bool {
	return slices.ContainsFunc(wanted, func(o Role) bool { return slices.Contains(r, o) })
}

// String returns the names, separated by commas.
func (r Roles) String() string { return strings.Join(r.Names(), ", ") }

// Names returns the names.
func (r Roles) Names() []string {
	names := make([]string, len(r))
	for i, role := range r {
		names[i] = string(role)
	}
	return names
}

// Missing returns the roles that r needs and that neither r nor alive contains, in the order of All.
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
