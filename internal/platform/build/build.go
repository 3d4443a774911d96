// Package build returns the version and the commit from which the program was built. The linker sets the variables of the package, with the flags of
// scripts/ldflags.sh.
package build

import "time"

var (
	version = "devel"
	commit  string
	date    string // RFC 3339
)

// Info describes the source from which a program was built.
type Info struct {
	Version string    // a tag such as v1.0.0, or devel
	Commit  string    // commit of git; empty: unknown
	Date    time.Time // when the commit was made; zero: unknown
}

// Read returns the Info of this program.
func Read() Info {
	info := Info{Version: version, Commit: commit}
	info.Date, _ = time.Parse(time.RFC3339, date) // zero if the date is unknown
	return info
}

// String returns one line for people, such as "v1.0.0, commit 28b18f702cab of 2026-11-27".
func (i Info) String() string {
	text := i.Version
	if i.Commit != "" {
		text += ", commit " + i.Commit[:min(12, len(i.Commit))]
	}
	if !i.Date.IsZero() {
		text += " of " + i.Date.UTC().Format(time.DateOnly)
	}
	return text
}
