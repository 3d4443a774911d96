package received

import (
	"maps"
	"slices"
)

// Alphabets returns the names of the alphabets that TakePart reads.
func Alphabets() []string { return slices.Sorted(maps.Keys(decoders)) }
