//go:build !linux

package main

import "syscall"

// leashed gives the command a process group of its own. Only Linux kills it when this
// tool is killed; elsewhere it runs on, and its fenced writes are refused.
func leashed() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
