//go:build !linux

package main

import "syscall"

// leashed returns the attributes of the command: its own process group. When
// this tool is killed, the command continues, except on Linux; its fenced
// writes are refused.
func leashed() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
