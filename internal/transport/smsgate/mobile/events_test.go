package mobile

import (
	"testing"
	"time"
)

func TestEventIntervalGrowsWhilePhoneClaimsNothing(t *testing.T) {
	t.Parallel()
	var p pacer
	start := time.Now()
	postsIn := func(from, to time.Duration, claimed time.Time) (n int) {
		for at := from; at < to; at += time.Second {
			if p.may(start.Add(at), claimed) {
				p.came(start.Add(at))
				n++
			}
		}
		return n
	}
	if n := postsIn(0, time.Hour, time.Time{}); n < 30 || n > 40 { // 3, 6, 12, 24, 48 and 96 seconds apart, then 120
		t.Errorf("a phone that gets no messages is notified %d times in an hour", n)
	}
	for i := range 3 { // the phone claims messages after each event
		from := time.Hour + time.Duration(3*i)*time.Second
		if n := postsIn(from, from+3*time.Second, start.Add(from)); n != 1 {
			t.Errorf("a phone that gets messages is notified %d times in three seconds", n)
		}
	}
	p.idle()
	if !p.may(start.Add(time.Hour+10*time.Second), start.Add(time.Hour+6*time.Second)) {
		t.Error("a message that comes after a pause is notified late")
	}
}
