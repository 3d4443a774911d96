//go:build !linux

package pgserver

import "syscall"

// dieWithParent does nothing, because this system has no such signal. The next start stops a server that outlived this process.
func dieWithParent(*syscall.SysProcAttr) {}
