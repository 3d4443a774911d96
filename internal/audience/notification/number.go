package notification

import (
	"encoding/json"
	"math"
)

// number reads an integer from a payload. It rounds fractions.
func number(v any) (int64, bool) {
	switch v := v.(type) {
	case json.Number:
		n, err := v.Float64()
		return int64(math.Round(n)), err == nil
	case float64:
		return int64(math.Round(v)), true
	case int64:
		return v, true
	default:
		return 0, false
	}
}
