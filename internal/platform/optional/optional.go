// Package optional helps with pointers whose nil means that a value is missing.
package optional

// Value returns *p, or the zero value if p is nil.
func Value[T any](p *T) T {
	var zero T
	return Or(p, zero)
}

// NonZero returns a pointer to v, or nil if v is the zero value.
func NonZero[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// Or returns *p, or otherwise if p is nil.
func Or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
