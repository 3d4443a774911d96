//go:build linux || darwin

package alert

import (
	"fmt"
	"syscall"
)

// diskSpace returns the size of the file system of a folder, and the free bytes that are available to an ordinary user.
func diskSpace(folder string) (bytes, free int64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return 0, 0, fmt.Errorf("read the file system: %w", err)
	}
	return int64(s.Blocks) * int64(s.Bsize), int64(s.Bavail) * int64(s.Bsize), nil //nolint:unconvert // Bsize has another type on darwin
}
