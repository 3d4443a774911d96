package cmpp

import (
	"testing"
	"time"
)

func TestValidTimeIsTheLocalTimeInChina(t *testing.T) {
	if got := ValidTime(time.Date(2026, time.December, 31, 23, 5, 9, 0, time.UTC)); got != "270101070509032+" {
		t.Errorf("got %s", got)
	}
}
