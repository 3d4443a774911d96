// Package optional reads values that may be missing: pointers of which nil means that there is none.
package optional

// Value returns what p points to, or the zero value if p is nil.
func Value[T any](p *T) T {
	var zero T
	return Or(p, zero)
}

// Or returns what p points to, or otherwise if p is nil.
func Or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
