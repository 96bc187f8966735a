package hostile_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"conclave/testbed"
)

// An honest caller asks each port that is not asked by the other honest clients, on a
// new connection, also during an attack. It is answered within prompt.
const (
	callEvery = 250 * time.Millisecond
	prompt    = 1500 * time.Millisecond
)

// caller asks at a port and returns an error if the answer is missing or wrong.
type caller func(ctx context.Context) error

// callers returns the honest callers, by name of their port: of the nodes' ports only
// if they use TLS.
func (w *world) callers() map[string]caller {
	out := map[string]caller{testbed.Database: w.askDatabase, "control": w.askControl}
	if w.others["console"] != "" {
		out["console"] = w.watchConsole
		return out
	}
	for node, address := range w.at {
		fresh := &http.Client{Transport: w.cluster.Secure(&http.Transport{DisableKeepAlives: true})}
		out[node] = func(ctx context.Context) error {
			_, err := firstLine(ctx, fresh, http.MethodGet, "http://"+address+"/healthz", http.StatusOK)
			return err
		}
	}
	return out
}

// call asks until ctx ends, and notes how long the answers take.
func (w *world) call(ctx context.Context, port string, ask caller) {
	tick := time.NewTicker(callEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		one, cancel := context.WithTimeout(ctx, racedTimes*prompt)
		err := ask(one)
		cancel()
		if ctx.Err() != nil {
			return
		}
		w.mu.Lock()
		w.slowest[port] = max(w.slowest[port], time.Since(began).Round(time.Millisecond))
		if err != nil {
			w.failed = append(w.failed, fmt.Sprint(port, ": ", err))
		}
		w.mu.Unlock()
	}
}

// firstLine returns the first line of an answer with the wanted status.
func firstLine(ctx context.Context, by *http.Client, method, url string, want int) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return "", err
	}
	res, err := by.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	line, err := bufio.NewReader(res.Body).ReadString('\n')
	if err == io.EOF { //nolint:errorlint // as bufio returns it
		err = nil
	}
	if res.StatusCode != want {
		return line, fmt.Errorf("%s: %.200s", res.Status, line)
	}
	return line, err
}

// watchConsole opens the stream of the console, until it has begun.
func (w *world) watchConsole(ctx context.Context) error {
	by := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	line, err := firstLine(ctx, by, http.MethodGet, "http://"+w.others["console"]+"/v1/stream", http.StatusOK)
	if err == nil && !strings.HasPrefix(line, "event: ") {
		err = fmt.Errorf("the stream begins with %.100q", line)
	}
	return err
}

func (w *world) askDatabase(ctx context.Context) error {
	db, err := sql.Open("mysql", w.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	var one int
	return db.QueryRowContext(ctx, "SELECT 1").Scan(&one)
}

// askControl asks the supervisor to start a process that there is not.
func (w *world) askControl(ctx context.Context) error {
	by := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", w.others["control"])
	}}}
	line, err := firstLine(ctx, by, http.MethodPost, "http://supervisor/start/data-9", http.StatusConflict)
	if err == nil && !strings.HasPrefix(line, "no such process") {
		err = fmt.Errorf("the answer is %.100q", line)
	}
	return err
}

// otherPorts returns the addresses of the database and of the control socket of the
// cluster in dir.
func (w *world) otherPorts(dir string) map[string]string {
	dsn, err := os.ReadFile(filepath.Join(dir, "dsn"))
	require.NoError(w.t, err)
	w.dsn = strings.TrimSpace(string(dsn))
	cfg, err := mysql.ParseDSN(w.dsn)
	require.NoError(w.t, err)
	text, err := os.ReadFile(filepath.Join(dir, "cluster.json"))
	require.NoError(w.t, err)
	var state struct{ Control string }
	require.NoError(w.t, json.Unmarshal(text, &state))
	return map[string]string{testbed.Database: cfg.Addr, "control": state.Control}
}

// console starts a console of the cluster in dir in which one may act, and returns its
// address.
func (w *world) console(bin, dir string) string {
	cmd := exec.CommandContext(w.t.Context(), filepath.Join(bin, "conclave"), "--dir", dir, "--json", "console", "--listen", "127.0.0.1:0", "--allow-actions")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.StdoutPipe()
	require.NoError(w.t, err)
	require.NoError(w.t, cmd.Start())
	w.t.Cleanup(func() { _ = cmd.Wait() }) // the context of the test has ended then
	w.pids["console"] = cmd.Process.Pid
	var shown struct{ Watch string }
	require.NoError(w.t, json.NewDecoder(out).Decode(&shown))
	return strings.Trim(strings.TrimPrefix(shown.Watch, "http://"), "/")
}
