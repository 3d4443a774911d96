// Package build says from what the program was built.
package build

import (
	"runtime/debug"
	"sync"
	"time"
)

// version is set by the linker: -X lksms/internal/build.version=1.0.0.
var version = "devel"

// Info is from what the program was built.
type Info struct {
	Version string    // a tag such as v1.0.0, or devel
	Commit  string    // of git; empty: not known, as in a build without the repository
	Date    time.Time // when that commit was made; zero: not known
}

// Read returns the Info of this program.
var Read = sync.OnceValue(func() Info {
	info := Info{Version: version}
	known, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	for _, setting := range known.Settings {
		switch setting.Key {
		case "vcs.revision":
			info.Commit = setting.Value
		case "vcs.time":
			info.Date, _ = time.Parse(time.RFC3339, setting.Value) // zero if it cannot be read
		}
	}
	return info
})

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
