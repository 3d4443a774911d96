package push

import (
	"testing"

	"lksms/internal/dispatch/driver/provider"
)

// C1: an unanswered message stops further batches only until another message has a clear outcome. Trouble stops them until all batches have ended.
func TestOutcomesPermitFurtherBatches(t *testing.T) {
	t.Parallel()
	unanswered, trouble, accepted, skipped := provider.Outcome{Unknown: true}, provider.Outcome{Trouble: true}, provider.Outcome{OK: true}, provider.Outcome{Unasked: true}
	for name, c := range map[string]struct {
		outcomes []provider.Outcome
		want     int
	}{
		"all are accepted":                    {[]provider.Outcome{accepted}, 90},
		"unanswered":                          {[]provider.Outcome{accepted, unanswered}, 0},
		"unanswered, then nothing was sent":   {[]provider.Outcome{unanswered, skipped}, 0},
		"unanswered, then accepted":           {[]provider.Outcome{unanswered, accepted}, 90},
		"unanswered, then a part is accepted": {[]provider.Outcome{unanswered, {InPart: true, Unknown: true}}, 90},
		"an outage, then accepted":            {[]provider.Outcome{{Outage: true}, accepted}, 90},
		"trouble, then accepted":              {[]provider.Outcome{trouble, accepted}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFlight()
			f.batches, f.open = 2, 10
			for _, o := range c.outcomes {
				f.learn(o)
			}
			if got := f.room(&setup{links: &links{}}, 100); got != c.want {
				t.Errorf("room for %d messages, want %d", got, c.want)
			}
		})
	}
}
