package pgserver

import (
	"os"
	"strings"
)

// environment returns the environment variables for PostgreSQL and its tools. It omits passwords and keys, because a superuser of the database can read the
// environment of its server in SQL.
func (a *account) environment() []string {
	env := []string{"LC_ALL=C"} // isBlockedByEnding matches English texts
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

// UnsetLibpq removes the variables of libpq (PGHOST, PGPORT, PGSERVICE, ...) from the environment of this process and its children. These variables can name a
// server other than the private server. pgx and the tools of PostgreSQL read some of these variables even if a URL sets the same parameter.
//
// Do not call UnsetLibpq in a process with DATABASE_URL: as with psql, the variables then supply the values that the URL does not contain.
func UnsetLibpq() {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "PG") {
			_ = os.Unsetenv(name) // fails only for an empty name
		}
	}
}
