//go:build !linux

package pgserver

import "syscall"

// dieWithParent does nothing: this system has no such signal. The next start stops a server that was left behind.
func dieWithParent(*syscall.SysProcAttr) {}
