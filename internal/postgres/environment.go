package postgres

import (
	"os"
	"strings"
)

// environment is what PostgreSQL and its tools get of ours. Passwords and keys stay behind: a superuser of the database can read
// the environment of its server in SQL.
func (a *account) environment() []string {
	env := []string{"LC_ALL=C"} // isWaitingForDead reads English
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

// ForgetLibpq takes the variables of libpq (PGHOST, PGPORT, PGSERVICE, ...) out of this process's environment, and so out of
// those of its children. They name another server than the private one, and pgx and the tools of PostgreSQL read some of them,
// also where a URL names the same thing.
//
// A process that is given the URL of a server keeps them: as with psql, they stand in for the parts that the URL leaves out.
func ForgetLibpq() {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "PG") {
			_ = os.Unsetenv(name) // fails only for an empty name
		}
	}
}
