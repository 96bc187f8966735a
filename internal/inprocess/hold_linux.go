package inprocess

import (
	"net"
	"os"
	"syscall"
)

// hold keeps the port of a node while it is down, by a socket that is bound to it and
// never listens: connections are refused, and the kernel gives the port to no socket that
// asks for any. Listeners of package net may use it, because of SO_REUSEADDR.
func hold(address *net.TCPAddr) (release func(), err error) {
	ip := address.IP.To4()
	if ip == nil {
		return func() {}, nil
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	release = func() { syscall.Close(fd) }
	err = os.NewSyscallError("setsockopt", syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
	if err == nil {
		err = os.NewSyscallError("bind", syscall.Bind(fd, &syscall.SockaddrInet4{Port: address.Port, Addr: [4]byte(ip)}))
	}
	if err == nil && address.Port == 0 {
		var bound syscall.Sockaddr
		bound, err = syscall.Getsockname(fd)
		if is4, ok := bound.(*syscall.SockaddrInet4); ok {
			address.Port = is4.Port
		}
	}
	if err != nil {
		release()
	}
	return release, err
}
