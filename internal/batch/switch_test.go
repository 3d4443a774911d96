package batch_test

import (
	"testing"

	"lksms/internal/apptest"
)

// A row that was checked is held, and not refused, when its country is taken away before it becomes a task: it can be undone.
func TestNarrowedCountriesHoldTheRowsOfABatch(t *testing.T) {
	for _, path := range []string{"companies/default", "channels/sms"} {
		for _, senderNo := range []string{"", "app"} {
			t.Run(path+" "+senderNo, func(t *testing.T) {
				b := apptest.New(t)
				b.AddCountry("CN", "86", nil)
				b.AddCountry("SG", "65", nil)
				b.Claim("app", 1) // registers
				fields := []string{"content", "hello"}
				if senderNo != "" {
					fields = append(fields, "sender_no", senderNo)
				}
				at := checked(b, "phone_number\n13800138000\n", fields...)
				b.Expect(200, "", "PATCH", "/api/v1/admin/"+path, map[string]any{"countries": []string{"SG"}})
				get(b, at, "confirm")
				feed(b)
				expect(b, get(b, at), "running", "1 rows, 1 valid, 1 waiting")
				if got := b.Claim("app", 10); len(got) != 0 {
					t.Errorf("claimed %v", got)
				}
				b.Expect(200, "", "PATCH", "/api/v1/admin/"+path, map[string]any{"countries": []string{"SG", "CN"}})
				if got := b.Claim("app", 10); len(got) != 1 {
					t.Errorf("claimed %v", got)
				}
			})
		}
	}
}
