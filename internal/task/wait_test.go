package task

import (
	"context"
	"slices"
	"testing"
	"time"
)

func TestAPoolIsQuietWhenAPollFoundNothingAndNothingCameSince(t *testing.T) {
	t.Parallel()
	const pool, other = 1, 2
	for _, c := range []struct {
		name  string
		act   func(l *line, poll func(found ...int64))
		quiet bool
	}{
		{"nobody has asked", func(*line, func(...int64)) {}, false},
		{"the poll found nothing", func(_ *line, poll func(...int64)) { poll() }, true},
		{"the poll found something", func(_ *line, poll func(...int64)) { poll(pool) }, false},
		{"it found something elsewhere", func(_ *line, poll func(...int64)) { poll(other) }, true},
		{"something came before the poll", func(l *line, poll func(...int64)) { l.wake(pool, 1); poll() }, true},
		{"something came after it", func(l *line, poll func(...int64)) { poll(); l.wake(pool, 1) }, false},
		{"something came while it was under way", func(l *line, _ func(...int64)) {
			l.poll = func(context.Context) ([]int64, error) { l.wake(pool, 1); return nil, nil }
			l.hear()
		}, false},
		{"the poll was long ago", func(l *line, poll func(...int64)) { poll(); l.heard = time.Now().Add(-time.Second) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := &line{loud: map[int64]int{}}
			c.act(l, func(found ...int64) {
				l.poll = func(context.Context) ([]int64, error) { return found, nil }
				l.hear()
			})
			if got := l.isQuiet([]int64{pool}); got != c.quiet {
				t.Errorf("quiet: %t", got)
			}
		})
	}
}

func TestWhoShouldHaveItIsServedFirst(t *testing.T) {
	t.Parallel()
	const pool = 1
	l := &line{loud: map[int64]int{}, asking: true}
	names := map[*place]string{}
	for _, c := range []struct {
		name string
		Standing
	}{
		{"first app", Standing{}},
		{"slow", Standing{DayShare: 0.1, ResponseMS: 500}},
		{"used", Standing{DayShare: 0.5, ResponseMS: 10}},
		{"quick", Standing{DayShare: 0.1, ResponseMS: 20}},
		{"preferred", Standing{Sort: 1, DayShare: 0.9}},
		{"second app", Standing{}},
	} {
		names[l.join(c.Standing)] = c.name
	}
	var order []string
	for range names {
		l.wake(pool, 1)
		for p, name := range names {
			select {
			case <-p.woken:
				order = append(order, name)
			default:
			}
		}
	}
	want := []string{"preferred", "first app", "second app", "quick", "slow", "used"}
	if !slices.Equal(order, want) || l.ranked != 0 || l.places.Len() != 0 {
		t.Errorf("order %v, want %v", order, want)
	}
}
