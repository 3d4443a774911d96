package notification

import (
	"encoding/json"
	"math"

	"lksms/internal/placeholder"
)

// fill fills a text that is not HTML.
func fill(template string, payload map[string]any, most int) (text string, missing []string) {
	return placeholder.Fill(template, payload, most, nil)
}

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
