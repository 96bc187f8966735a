package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// control serves the supervisor's unix socket. The socket has mode 0600 and is in
// the cluster's folder, which is made with 0700: only their owner can start and stop
// processes.
type control struct {
	cluster *Cluster
	server  *http.Server
}

func newControl(c *Cluster) *control {
	ctl := &control{cluster: c}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /start/{name}", ctl.start)
	mux.HandleFunc("POST /stop", ctl.stop)
	ctl.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return ctl
}

// listenControl opens the socket. The caller holds the folder's lock, so an
// existing socket was left by a supervisor that was killed. The kernel allows
// about a hundred bytes for the path; if the folder's is longer, the socket is
// in a folder of this user in the temporary folder.
func listenControl(dir string) (net.Listener, error) {
	path := filepath.Join(dir, "control.sock")
	if len(path) > 100 {
		own := filepath.Join(os.TempDir(), fmt.Sprintf("conclave-%d", os.Getuid()))
		if err := os.Mkdir(own, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if err := isPrivate(own); err != nil {
			return nil, err
		}
		path = filepath.Join(own, fmt.Sprintf("%08x.sock", crc32.ChecksumIEEE([]byte(dir))))
	}
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

// isPrivate returns an error unless a folder belongs to this user and is closed to
// all others, who could otherwise have made it first, or a link in its place.
func isPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm() != 0o700 || ok && int(owner.Uid) != os.Getuid() {
		return fmt.Errorf("the folder %s must belong to this user with mode 0700, not %v", dir, info.Mode())
	}
	return nil
}

func (c *control) serve(ln net.Listener) {
	if err := c.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		c.cluster.cfg.Logger.Error("the control socket failed; from now on only signals can stop the cluster", "error", err)
	}
}

// close stops the server after the requests in progress have been answered.
func (c *control) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if c.server.Shutdown(ctx) != nil {
		c.server.Close()
	}
}

func (c *control) start(w http.ResponseWriter, r *http.Request) {
	ch, err := c.cluster.find(r.PathValue("name"))
	if err == nil {
		err = ch.start(r.Context())
	}
	answer(w, err)
}

func (c *control) stop(w http.ResponseWriter, r *http.Request) {
	c.cluster.Stop(r.URL.Query().Get("now") == "true")
	answer(w, nil)
}

// refusal is an answer of the socket. Kind identifies the sentinel error, so
// that the client can return the same one.
type refusal struct {
	Kind  string `json:"kind,omitempty"`
	Error string `json:"error,omitempty"`
}

var kinds = map[string]error{"running": ErrRunning, "unknown": ErrNoProcess}

func answer(w http.ResponseWriter, err error) {
	var out refusal
	if err != nil {
		out.Error = err.Error()
		for kind, sentinel := range kinds {
			if errors.Is(err, sentinel) {
				out.Kind = kind
			}
		}
	}
	_ = json.NewEncoder(w).Encode(out) // fails only if the client has disconnected
}

// err returns the error in the answer, nil if there is none.
func (r refusal) err() error {
	if r.Error == "" {
		return nil
	}
	if sentinel := kinds[r.Kind]; sentinel != nil {
		return answered{r.Error, sentinel}
	}
	return errors.New(r.Error)
}

// answered is an error with the supervisor's message that wraps a sentinel of
// this package.
type answered struct {
	message string
	kind    error
}

func (a answered) Error() string { return a.message }
func (a answered) Unwrap() error { return a.kind }
