package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Limits of a connection to the socket: the time for a header, and between two
// requests, and the bytes of a header.
const (
	controlTime   = 5 * time.Second
	controlHeader = 16 << 10
)

// control returns the server of the supervisor's unix socket. The socket has mode 0600
// and is in the cluster's folder, which is made with 0700: only their owner can start and
// stop processes.
func (c *Cluster) control() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /start/{name}", func(w http.ResponseWriter, r *http.Request) {
		ch, err := c.find(r.PathValue("name"))
		if err == nil {
			err = ch.start(r.Context())
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})
	mux.HandleFunc("POST /end/{name}", func(w http.ResponseWriter, r *http.Request) { // of a node inside this process
		sig := syscall.SIGTERM
		if r.URL.Query().Get("now") == "true" {
			sig = syscall.SIGKILL
		}
		ch, err := c.find(r.PathValue("name"))
		if err == nil && c.cfg.Inside != nil {
			if err = ch.record().signal(sig); errors.Is(err, os.ErrProcessDone) {
				err = fmt.Errorf("%w: %s has ended", ErrDown, ch.spec.Name)
			}
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})
	mux.HandleFunc("POST /stop", func(_ http.ResponseWriter, r *http.Request) { c.Stop(r.URL.Query().Get("now") == "true") })
	return &http.Server{Handler: mux, ReadHeaderTimeout: controlTime, IdleTimeout: controlTime, MaxHeaderBytes: controlHeader}
}

// listenControl opens the socket. The caller holds the folder's lock, so an
// existing socket was left by a supervisor that was killed. The kernel allows
// about a hundred bytes for the path; if the folder's is longer, the socket is
// in a new folder of its own, which only this user can enter and Close removes.
func listenControl(dir string) (net.Listener, error) {
	if path := filepath.Join(dir, "control.sock"); len(path) <= 100 {
		return listenPrivately(path)
	}
	own, err := os.MkdirTemp("", "conclave-")
	if err != nil {
		return nil, err
	}
	ln, err := listenPrivately(filepath.Join(own, "control.sock"))
	if err != nil {
		return nil, errors.Join(err, os.Remove(own))
	}
	return ownFolder{ln, own}, nil
}

// listenPrivately opens a socket that only this user may connect to.
func listenPrivately(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}

// ownFolder is a socket in a folder of its own.
type ownFolder struct {
	net.Listener
	dir string
}

// Close closes the socket and removes its folder.
func (o ownFolder) Close() error {
	return errors.Join(o.Listener.Close(), os.RemoveAll(o.dir))
}

// closeControl stops the server after the requests in progress have been answered.
func closeControl(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		server.Close()
	}
}

// answerOf returns the error in an answer, nil if there is none. ErrRunning,
// ErrDown and ErrNoProcess are known by their texts, with which those of their errors begin.
func answerOf(res *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil || res.StatusCode == http.StatusOK {
		return err
	}
	text := strings.TrimSuffix(string(body), "\n")
	for _, kind := range []error{ErrRunning, ErrDown, ErrNoProcess} {
		if rest, is := strings.CutPrefix(text, kind.Error()); is {
			return fmt.Errorf("%w%s", kind, rest)
		}
	}
	return errors.New(text)
}
