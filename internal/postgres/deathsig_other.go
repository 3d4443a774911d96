//go:build !linux

package postgres

import "syscall"

// dieWithParent has no counterpart here: the next start ends what was left behind.
func dieWithParent(*syscall.SysProcAttr) {}
