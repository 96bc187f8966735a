package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		os.Exit(roles[os.Args[1]](os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// Without this the first write to a closed pipe would kill the tool, and leave its
	// processes. The signal itself is of no use: closed connections send it too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		go func() { // runs until the process exits
			awaitReaderEnd(f)
			end(errReaderEnded)
		}()
	}
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// errReaderEnded is the cause of a context that ends because the program that reads
// the output has ended, as in `conclave demo | head`.
var errReaderEnded = errors.New("the reader of the output has ended")

// awaitReaderEnd returns when the reader of a pipe has ended; never for another file.
func awaitReaderEnd(f *os.File) {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		select {}
	}
	for fds := []unix.PollFd{{Fd: int32(f.Fd())}}; fds[0].Revents&(unix.POLLERR|unix.POLLHUP) == 0; {
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			select {}
		}
	}
}
