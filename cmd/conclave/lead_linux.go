package main

import "syscall"

// leashed returns the attributes of the command: its own process group, and
// that the kernel kills it when this tool dies. Processes that the command has
// started continue, and their fenced writes are refused.
func leashed() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
