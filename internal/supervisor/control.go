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
	"time"
)

// control is the supervisor's ear: a unix socket in the cluster's folder, so
// that whoever may write the folder may start and stop, and nobody else.
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

// listenControl opens the socket; the caller holds the folder's lock, so a
// socket that is there belongs to a supervisor that was killed. The kernel takes
// about a hundred bytes of path: a deeper folder's socket lies in the temporary
// one.
func listenControl(dir string) (net.Listener, error) {
	path := filepath.Join(dir, "control.sock")
	if len(path) > 100 {
		path = filepath.Join(os.TempDir(), fmt.Sprintf("conclave-%d-%08x.sock", os.Getuid(), crc32.ChecksumIEEE([]byte(dir))))
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", path)
}

func (c *control) serve(ln net.Listener) {
	if err := c.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		c.cluster.cfg.Logger.Error("the control socket failed: only signals are heard from now on", "error", err)
	}
}

// close lets answers under way leave.
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

// refusal is what the socket answers; Kind keeps the sentinel across it.
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
	_ = json.NewEncoder(w).Encode(out) // the asker is gone: nobody is left to tell
}

// err is the error that was answered.
func (r refusal) err() error {
	if r.Error == "" {
		return nil
	}
	if sentinel := kinds[r.Kind]; sentinel != nil {
		return answered{r.Error, sentinel}
	}
	return errors.New(r.Error)
}

// answered has another process's message and our sentinel.
type answered struct {
	message string
	kind    error
}

func (a answered) Error() string { return a.message }
func (a answered) Unwrap() error { return a.kind }
