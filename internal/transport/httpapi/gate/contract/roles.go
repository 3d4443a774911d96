package contract

import (
	"fmt"
	"iter"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"

	"lksms/internal/platform/access"
	"lksms/internal/platform/servers"
)

// AccessKey is the extension of the contract that lists the roles that can call an operation.
const AccessKey = "x-lksms-access"

// Public marks an operation that needs no credentials. ReadAll admits readers who see all companies.
const (
	Public  = "public"
	ReadAll = "read_all"
)

// rolesOf returns the roles that can call an operation. An operation without roles or with an unknown role is an error.
func rolesOf(pattern string, operation *openapi3.Operation) ([]string, error) {
	known := []string{access.RoleSubmit, access.RoleSend, access.RoleRead, access.RoleAdmin, Public, ReadAll}
	list, _ := operation.Extensions[AccessKey].([]any)
	if len(list) == 0 {
		return nil, fmt.Errorf("contract: %s lacks %s", pattern, AccessKey)
	}
	roles := make([]string, len(list))
	for i, entry := range list {
		roles[i], _ = entry.(string)
		if !slices.Contains(known, roles[i]) {
			return nil, fmt.Errorf("contract: %s of %s: unknown role %v", AccessKey, pattern, entry)
		}
	}
	return roles, nil
}

// servedByKey is the extension of the contract that names the role of the servers that answer an operation. The default is servers.API. Servers with the role
// servers.Console also answer operations of servers.API, because the pages call them.
const servedByKey = "x-lksms-served-by"

// byEveryServer marks an operation that every server answers.
const byEveryServer = "all"

// servedByOf returns the role of the servers that answer an operation. An empty role means every server.
func servedByOf(pattern string, operation *openapi3.Operation) (servers.Role, error) {
	switch name, isNamed := operation.Extensions[servedByKey].(string); {
	case !isNamed:
		return servers.API, nil
	case name == byEveryServer:
		return "", nil
	case slices.Contains(servers.All().Names(), name):
		return servers.Role(name), nil
	default:
		return "", fmt.Errorf("contract: %s of %s: unknown role %s", servedByKey, pattern, name)
	}
}

// operationsOf yields the operations of the contract with their ServeMux patterns.
func operationsOf(spec *openapi3.T) iter.Seq2[string, *openapi3.Operation] {
	return func(yield func(string, *openapi3.Operation) bool) {
		for path, item := range spec.Paths.Map() {
			for method, operation := range item.Operations() {
				if !yield(method+" "+path, operation) {
					return
				}
			}
		}
	}
}
