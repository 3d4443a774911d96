package pgserver

import "syscall"

// dieWithParent makes the child shut down cleanly when this process ends without stopping it.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGINT }
