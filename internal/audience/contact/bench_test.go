package contact_test

import (
	"fmt"
	"strings"
	"testing"

	"lksms/internal/testkit/apptest"
)

// BenchmarkImport imports a list of a million contacts into a tag, from its upload to its end.
func BenchmarkImport(b *testing.B) {
	s := apptest.Open(b, apptest.DefaultRules, nil)
	for n := range b.N {
		var list strings.Builder
		list.WriteString("user_id,name,phone,email,城市,等级\n")
		for i := range 1_000_000 {
			fmt.Fprintf(&list, "user-%d-%07d,客户%d,%d,user%d@example.com,杭州,%d\n", n, i, i, 13800000000+i, i, i%5)
		}
		b.SetBytes(int64(list.Len()))
		if i := imported(s, new("all"), list.String()); counts(i) != "finished: 1000000 rows, 1000000 added, 0 changed, 0 invalid" {
			b.Fatal(counts(i))
		}
	}
}
