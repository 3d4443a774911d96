package postgres

import (
	"os"
	"strings"
)

// ForgetLibpq takes the variables of libpq (PGHOST, PGPORT, PGSERVICE, ...) out of this process's environment, and so out of
// those of its children. They name another server than the private one, and PostgreSQL, its tools and pgx each read some of
// them, also where a URL names the same thing.
//
// A process that is given the URL of a server keeps them: as with psql, they stand in for the parts that the URL leaves out.
func ForgetLibpq() {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "PG") {
			_ = os.Unsetenv(name) // fails only for an empty name
		}
	}
}
