package messages

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"lksms/test/bench/measure"
)

// endsAtOnce names an environment variable. If it is set, the bare server of the tests exits immediately. Otherwise the bare server runs, but never listens.
const endsAtOnce = "BENCH_BARE_ENDS_AT_ONCE"

// TestMain also acts as the bare server of the tests, because processorTimeOfBare starts its own executable.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "--bare" {
		if os.Getenv(endsAtOnce) != "" {
			os.Exit(3)
		}
		time.Sleep(time.Minute)
	}
	os.Exit(m.Run())
}

func TestProcessorTimeFailsWhenTheBareServerExits(t *testing.T) {
	t.Setenv(endsAtOnce, "yes")
	began := time.Now()
	_, err := processorTimeOfBare(t.Context(), &measure.Bench{Stack: &measure.Stack{}})
	if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "exit status 3") || took > 5*time.Second {
		t.Errorf("after %s: %v", took, err)
	}
}

func TestCancellationEndsTheWaitForTheBareServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := processorTimeOfBare(ctx, &measure.Bench{Stack: &measure.Stack{}})
	if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 5*time.Second {
		t.Errorf("after %s: %v", took, err)
	}
}
