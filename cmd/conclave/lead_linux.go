package main

import "syscall"

// leashed gives the command a process group of its own, and has the kernel kill it when
// this tool dies, with kill -9, too. It kills the command only: what that has started
// lives on then, and its fenced writes are refused.
func leashed() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
