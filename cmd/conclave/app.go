package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave"
	"conclave/internal/certs"
	"conclave/meta/metaclient"
	"conclave/testbed/local/supervisor"
	"conclave/testbed/outside"
	"conclave/wire"
	"conclave/wire/rights"
)

// version is set by the Makefile with -ldflags.
var version = "dev"

// defaultDir is the folder of the local cluster unless --dir names another one.
const defaultDir = ".conclave"

// app is one call of the tool: its global flags and output streams.
type app struct {
	stdout, stderr io.Writer

	dir        string
	metas      []string
	asJSON     bool
	token      string
	fromEnv    bool // token is that of CONCLAVE_TOKEN
	tokenFile  string
	tlsDir     string
	sessionsAt []string // of --session

	entered bool // a command's own code was reached; later errors are not usage errors
	http    *http.Client
	certs   *certs.Set // with which nodes are called; nil without TLS
}

// newHTTPClient returns a client with short timeouts, so that the next meta is
// asked if one does not answer. It uses TLS if a.certs is set.
func (a *app) newHTTPClient() *http.Client {
	dialer := &net.Dialer{Timeout: time.Second}
	// The console asks one node up to eight questions at once, a few times a second.
	transport := &http.Transport{DialContext: dialer.DialContext, ResponseHeaderTimeout: 10 * time.Second, MaxIdleConnsPerHost: 8}
	return &http.Client{Transport: wire.SecureTransport(transport, func() *tls.Config {
		if a.certs == nil {
			return nil
		}
		return a.certs.Client()
	})}
}

// useTLS makes all requests use TLS, with the CAs and the certificate of a folder.
func (a *app) useTLS(dir string) (err error) {
	a.certs, err = certs.Load(dir, "", func(err error) {
		if err != nil {
			a.warn(failure{Code: "failed", Message: err.Error() + ": the old ones stay"})
		}
	})
	return err
}

// readTLS uses TLS if the flag or the environment names a folder.
func (a *app) readTLS() error {
	if a.tlsDir == "" {
		a.tlsDir = os.Getenv("CONCLAVE_TLS_DIR")
	}
	if a.tlsDir == "" {
		return nil
	}
	if err := a.useTLS(a.tlsDir); err != nil {
		return usageError{fmt.Errorf("--tls-dir: %w", err)}
	}
	return nil
}

// hint returns a call of the tool on the same cluster, to show to the user.
func (a *app) hint(command string) string {
	switch {
	case len(a.metas) > 0:
		command += " --meta " + strings.Join(a.metas, ",")
	case a.dir != defaultDir:
		command += " --dir " + quoted(a.dir)
	}
	if len(a.sessionsAt) > 0 && strings.HasPrefix(command, "services") {
		command += " --session " + strings.Join(a.sessionsAt, ",")
	}
	return "`" + program() + " " + command + "`"
}

// quoted returns a word as a shell takes it.
func quoted(word string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:,@%") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// program returns the tool as the user called it: conclave or its path.
func program() string {
	if filepath.Base(os.Args[0]) == "conclave" {
		return os.Args[0]
	}
	return "conclave"
}

// local returns the cluster in --dir.
func (a *app) local() (*supervisor.Handle, error) {
	h, err := supervisor.Open(a.dir)
	if errors.Is(err, supervisor.ErrNone) {
		return nil, fmt.Errorf("no cluster in %s: start one with %s, or choose another --dir", a.dir, a.hint("up"))
	}
	return a.adopt(h, err)
}

// onLocal makes what a command does on the cluster in --dir.
func (a *app) onLocal(do func(context.Context, *supervisor.Handle, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		h, err := a.local()
		if err != nil {
			return err
		}
		return do(cmd.Context(), h, args)
	}
}

// adopt uses the certificates of the local cluster, if it has some and the call
// names none.
func (a *app) adopt(h *supervisor.Handle, err error) (*supervisor.Handle, error) {
	if err != nil || a.certs != nil {
		return h, err
	}
	if dir := h.TLSDir(); dir != "" {
		return h, a.useTLS(dir)
	}
	return h, nil
}

// running returns the cluster in --dir, whose processes may be down. If none is
// running, other processes may have its ports.
func (a *app) running() (*supervisor.Handle, error) {
	h, err := supervisor.Open(a.dir)
	if errors.Is(err, supervisor.ErrNone) || err == nil && !h.Running() {
		return nil, fmt.Errorf("no cluster is running in %s: start one with %s, or name the metas of another with --meta", a.dir, a.hint("up"))
	}
	return a.adopt(h, err)
}

// metaAddresses returns the addresses of --meta, or of the local cluster's
// metas.
func (a *app) metaAddresses() ([]string, error) {
	if len(a.metas) > 0 {
		return a.metas, checkAddresses("--meta", a.metas...)
	}
	h, err := a.running()
	if err != nil {
		return nil, err
	}
	a.takeToken(h)
	return h.Addresses("meta")
}

// admin returns a client for the metas' API.
func (a *app) admin() (*metaclient.Admin, error) {
	metas, err := a.metaAddresses()
	if err != nil {
		return nil, err
	}
	return a.adminAt(metas), nil
}

// nodeAddress is a node and where it answers.
type nodeAddress struct{ name, address string }

// nodeAddresses returns the nodes of these roles: those of the local cluster's
// processes, which may be down, or those that the metas list.
func (a *app) nodeAddresses(ctx context.Context, roles ...string) (out []nodeAddress, err error) {
	if len(a.metas) == 0 {
		h, err := a.running()
		if err != nil {
			return nil, err
		}
		a.takeToken(h)
		rows, err := h.Rows()
		for _, p := range rows {
			if slices.Contains(roles, p.Role) {
				out = append(out, nodeAddress{p.Name, p.HTTP})
			}
		}
		return out, err
	}
	admin, err := a.admin()
	if err != nil {
		return nil, err
	}
	role := conclave.Role("")
	if len(roles) == 1 {
		role = conclave.Role(roles[0])
	}
	nodes, err := admin.Nodes(ctx, role)
	for _, n := range nodes {
		if slices.Contains(roles, string(n.Role)) {
			out = append(out, nodeAddress{n.Name, n.Address})
		}
	}
	return out, err
}

// checkAddresses returns a usageError if one of a flag's addresses cannot be one.
func checkAddresses(flag string, addresses ...string) error {
	for _, address := range addresses {
		_, port, err := net.SplitHostPort(address)
		if err == nil {
			_, err = net.LookupPort("tcp", port)
		}
		if err != nil {
			return usageError{fmt.Errorf("%s %q: want HOST:PORT", flag, address)}
		}
	}
	return nil
}

// sessionAddresses returns the sessions: those of --session, or the cluster's.
func (a *app) sessionAddresses(ctx context.Context) (out []nodeAddress, err error) {
	if len(a.sessionsAt) == 0 {
		return a.nodeAddresses(ctx, "session")
	}
	if err := checkAddresses("--session", a.sessionsAt...); err != nil {
		return nil, err
	}
	for _, address := range a.sessionsAt {
		out = append(out, nodeAddress{address, address})
	}
	return out, nil
}

func (a *app) adminAt(metas []string) *metaclient.Admin {
	return metaclient.NewAdmin(metaclient.AdminConfig{Metas: metas, HTTP: a.http, TokenFor: a.tokenFor})
}

// pageRows is how many rows of a list are read at a time.
const pageRows = 4000

// getList reads a list from the port of one node, page by page, each within nodeWait.
func getList[T any](ctx context.Context, a *app, address, path string) (all []T, err error) {
	for path = fmt.Sprintf("%s?limit=%d", path, pageRows); path != ""; {
		var page []T
		limited, cancel := context.WithTimeout(ctx, nodeWait)
		path, err = a.getPage(limited, address, path, &page)
		cancel()
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
	}
	return all, nil
}

// getPage reads a document from the port of one node, and returns the path of the next
// page; "" if there is none.
func (a *app) getPage(ctx context.Context, address, path string, out any) (next string, err error) {
	answered := false
	err = outside.Get(ctx, a.http, "http://"+address+path, a.tokenFor(address), func(res *http.Response) error {
		answered = true
		switch res.StatusCode {
		case http.StatusOK:
		case http.StatusUnauthorized, http.StatusForbidden:
			return wire.Errorf(wire.CodeUnauthorized, "%s answered %s to %s", address, res.Status, path)
		default:
			return wire.Errorf(wire.CodeUnavailable, "%s answered %s to %s", address, res.Status, path)
		}
		next = nextPage(res.Header.Get("Link"))
		return json.NewDecoder(io.LimitReader(res.Body, 512<<20)).Decode(out)
	})
	if err != nil && !answered {
		err = wire.Errorf(wire.CodeUnavailable, "cannot reach the node at %s: %v", address, err)
	}
	return next, err
}

// nextPage returns the path in a header Link of relation next; "" if there is none.
func nextPage(link string) string {
	target, found := strings.CutSuffix(link, `>; rel="next"`)
	if target, ok := strings.CutPrefix(target, "<"); found && ok && strings.HasPrefix(target, "/v1/") {
		return target
	}
	return ""
}

// requestWait is the time limit of one request to the cluster. nodeWait is that
// of asking one node of many: a suspended node is left out then.
const (
	requestWait = 15 * time.Second
	nodeWait    = 3 * time.Second
)

// ask calls f with the admin client and a context that ends after requestWait.
func (a *app) ask(cmd *cobra.Command, f func(context.Context, *metaclient.Admin) error) error {
	admin, err := a.admin()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), requestWait)
	defer cancel()
	return f(ctx, admin)
}

// toolPath returns the path of this program and the folder of the other
// programs.
func toolPath() (path, dir string, err error) {
	path, err = os.Executable()
	if err != nil {
		return "", "", err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil && os.Getenv(binEnv) == "" {
		path = real
	}
	if dir = os.Getenv(binEnv); dir == "" {
		dir = filepath.Dir(path)
	}
	return path, dir, nil
}

// binEnv is the environment variable that names another folder of programs, for
// tests.
const binEnv = "CONCLAVE_BIN"

// readyWait is how long `up` waits for its cluster, which is longer than the
// metas wait for their database (a minute).
const readyWait = 75 * time.Second

// addSessionFlag adds the flag of commands that ask sessions.
func (a *app) addSessionFlag(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&a.sessionsAt, "session", nil, "addresses of sessions, instead of those listed by the metas (ADDR,...)")
}

// operator returns the user's name, which is recorded with a change.
func operator() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "operator"
}

// commandName returns a command's words without the program's.
func commandName(cmd *cobra.Command) string {
	return strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()), " ")
}

// topCommand returns the command below the root that a command is or belongs to.
func topCommand(cmd *cobra.Command) *cobra.Command {
	for cmd.HasParent() && cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	return cmd
}

// readToken sets the token from the flag, the file or the environment.
func (a *app) readToken() error {
	if a.token != "" && a.tokenFile != "" {
		return usageError{errors.New("--token and --token-file exclude each other")}
	}
	if a.tokenFile != "" {
		tokens, err := rights.ReadFile(a.tokenFile)
		if err != nil {
			return usageError{fmt.Errorf("--token-file: %w", err)}
		}
		a.token = tokens.Strongest()
	}
	if a.token == "" {
		a.token, a.fromEnv = os.Getenv("CONCLAVE_TOKEN"), true
	}
	return nil
}

// takeToken takes the token of the cluster in --dir, unless the user gave one by a
// flag: CONCLAVE_TOKEN may be that of applications, which may not do everything.
func (a *app) takeToken(h *supervisor.Handle) {
	if a.token != "" && !a.fromEnv {
		return
	}
	if token := h.Token(); token != "" { // clients that resolve sessions meanwhile read it
		a.token, a.fromEnv = token, false
	}
}

// takeTokenOfSessions is takeToken if all of --session belong to the cluster in
// --dir: the token is sent to no other address.
func (a *app) takeTokenOfSessions() {
	h, err := supervisor.Open(a.dir)
	if err != nil || len(a.metas) > 0 || len(a.sessionsAt) == 0 {
		return
	}
	own, err := h.Addresses("session")
	for _, address := range a.sessionsAt {
		if err != nil || !slices.Contains(own, address) {
			return
		}
	}
	a.takeToken(h)
}

// tokenFor returns what is sent to an address: the token if it was given to the tool,
// and one that is bound to the address if it was not, as those that metas list.
func (a *app) tokenFor(address string) string {
	return a.tokensFor()(address)
}

// tokensFor returns tokenFor for what asks often: the addresses that are given now are
// read once.
func (a *app) tokensFor() func(address string) string {
	given := a.given()
	return func(address string) string { return rights.TokenFor(a.token, address, given) }
}

// given returns the addresses that the user has named: those of --meta and --session,
// or of the processes of the cluster in --dir.
func (a *app) given() []string {
	given := slices.Concat(a.metas, a.sessionsAt)
	if len(a.metas) > 0 {
		return given
	}
	h, err := supervisor.Open(a.dir)
	if err != nil {
		return given
	}
	rows, _ := h.Rows() // without them no address is given
	for _, p := range rows {
		if p.HTTP != "" {
			given = append(given, p.HTTP, p.Advertised)
		}
	}
	return given
}
