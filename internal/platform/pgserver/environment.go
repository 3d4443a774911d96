package pgserver

import (
	"os"
	"strings"
)

// environment is the part of this process's environment that PostgreSQL and its tools get. Passwords and keys are
// left out, because a superuser of the database can read the environment of its server in SQL.
func (a *account) environment() []string {
	env := []string{"LC_ALL=C"} // isBlockedByEnding searches English texts
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH", "TZ", "HOME"} {
		value, set := os.LookupEnv(name)
		if name == "HOME" && a != nil {
			value, set = a.home, true
		}
		if set {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// UnsetLibpq removes the variables of libpq (PGHOST, PGPORT, PGSERVICE, ...) from the environment of this process
// and its children. They name another server than the private one, and pgx and the tools of PostgreSQL read some of
// them even if a URL sets the same parameter.
//
// A process that is given the URL of a server keeps the variables: as with psql, they fill in what the URL leaves
// out.
func UnsetLibpq() {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "PG") {
			_ = os.Unsetenv(name) // fails only for an empty name
		}
	}
}
