package gate

import (
	"fmt"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"

	"lksms/internal/platform/fault"
	"lksms/internal/platform/servers"
)

// servedByKey is the extension of the contract that names the role of the servers which answer an operation. Without it, it is servers.API. Servers
// with servers.Console answer the operations of servers.API too, which the pages call.
const servedByKey = "x-lksms-served-by"

// byEveryServer marks an operation that every server answers.
const byEveryServer = "all"

// servedByOf reads from the contract the role of the servers which answer each operation, by its pattern in a ServeMux. An operation that every
// server answers has none.
func servedByOf(spec *openapi3.T) (map[string]servers.Role, error) {
	servedBy := map[string]servers.Role{}
	for pattern, operation := range operationsOf(spec) {
		switch name, isNamed := operation.Extensions[servedByKey].(string); {
		case !isNamed:
			servedBy[pattern] = servers.API
		case name == byEveryServer:
		case slices.Contains(servers.All().Names(), name):
			servedBy[pattern] = servers.Role(name)
		default:
			return nil, fmt.Errorf("contract: %s of %s: unknown role %s", servedByKey, pattern, name)
		}
	}
	return servedBy, nil
}

// ErrOtherRole is the fault of a request that servers with another role answer.
var ErrOtherRole = &fault.Error{Kind: fault.Unavailable, Reason: fault.ServerOtherRole, RetryAfter: ErrUnavailable.RetryAfter}

// serves reports whether this server answers what servers with a role answer; without a role, every server does.
func (g *Gate) serves(role servers.Role) bool {
	return role == "" || g.options.Roles.Has(role) || role == servers.API && g.options.Roles.Has(servers.Console)
}
