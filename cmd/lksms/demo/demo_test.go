package demo

import (
	"context"
	"strings"
	"testing"
	"time"

	"lksms/internal/platform/config"
)

// The demo is started without a server. Its error is not about the password, which the first start of a server generates.
func TestTheDemoWithoutAServerSaysHowToStartOne(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	const nobody = "http://127.0.0.1:1"
	err := (&Cmd{Target: target{URL: nobody}, Count: 1, Database: config.Database{DataDir: t.TempDir()}}).Run(ctx)
	if err == nil || !strings.Contains(err.Error(), "no server is running at "+nobody) || !strings.Contains(err.Error(), "make run") {
		t.Error(err)
	}
}
