//go:build !linux && !darwin

package alert

import "errors"

// diskSpace returns errors.ErrUnsupported on this system.
func diskSpace(string) (bytes, free int64, err error) { return 0, 0, errors.ErrUnsupported }
