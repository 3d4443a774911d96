package stack

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Pause waits for d or until ctx ends. It returns false if ctx has ended.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err() == nil
}

// Await waits until isSo returns true. After limit it returns an error with the text.
func Await(ctx context.Context, limit time.Duration, text string, isSo func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for !isSo(ctx) {
		if !Pause(ctx, 50*time.Millisecond) {
			return fmt.Errorf("%s within %s", text, limit)
		}
	}
	return nil
}

// readyLimit is the time limit of a readiness probe.
const readyLimit = time.Second

// StatusOf returns the HTTP status of a GET request. It returns 0 if no response came within readyLimit.
func StatusOf(ctx context.Context, address string) int {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0
	}
	res, err := probe.Do(req)
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}
