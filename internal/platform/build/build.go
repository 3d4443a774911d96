// Package build says from what the program was built. Its variables are set by the linker: scripts/ldflags.sh.
package build

import "time"

var (
	version = "devel"
	commit  string
	date    string // RFC 3339
)

// Info is from what a program was built.
type Info struct {
	Version string    // a tag such as v1.0.0, or devel
	Commit  string    // of git; empty: not known
	Date    time.Time // when that commit was made; zero: not known
}

// Read returns the Info of this program.
func Read() Info {
	info := Info{Version: version, Commit: commit}
	info.Date, _ = time.Parse(time.RFC3339, date) // zero if it is not known
	return info
}

// String is one line for people, such as "v1.0.0, commit 28b18f702cab of 2026-11-27".
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
