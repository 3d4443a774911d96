package build

import (
	"testing"
	"time"
)

func TestStringContainsTheKnownBuildFields(t *testing.T) {
	t.Parallel()
	for want, info := range map[string]Info{
		"devel":                            {Version: "devel"},
		"v1.0.0, commit 28b18f702cab":      {Version: "v1.0.0", Commit: "28b18f702cabf5a3a2a5d5b7e3f1c0d9e8f7a6b5"},
		"v1.0.0, commit abc of 2026-11-27": {Version: "v1.0.0", Commit: "abc", Date: time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)},
	} {
		if got := info.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
