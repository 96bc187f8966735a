package session

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/mux"

	"conclave"
	"conclave/internal/contain"
	"conclave/internal/sleep"
	"conclave/session/registry"
	"conclave/session/sofa"
	"conclave/wire"
	"conclave/wire/admit"
	"conclave/wire/rights"
	"conclave/wire/serve"
)

// sofaDoor serves clients of SOFARegistry: each of their connections as a stream of an
// SDK's client, and their requests for the addresses of sessions.
//
// To move, such a client must lose its connection. It connects again within a second if
// it finds a session at its first attempt, and sleeps for up to five seconds after each
// one that fails. So its registrations stay for longer than those of other clients.
type sofaDoor struct {
	config   Config
	service  *clientService
	clients  *clients
	view     *wire.View
	intake   *admit.Budget // bytes of frames that have arrived in part, by host
	identify func(need rights.Right, token string, revoked func()) (identity rights.Identity, release func(), err error)

	mu     sync.Mutex // guards the rest
	leave  time.Time  // when the next client may lose its connection to move
	warned time.Time  // when the log last had a client that is refused, which the client shows no one
}

// sofaMove is the time between two connections that end because their clients are to
// move: of 10,000 the last one after five seconds, half of the time for a drain.
const sofaMove = 500 * time.Microsecond

// warnAgain is the time between two lines of the log about clients that are refused: each
// tries again several times a second.
const warnAgain = 10 * time.Second

// moveIn returns after which time a client is to lose its connection.
func (d *sofaDoor) moveIn() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.leave = later(d.leave, now).Add(sofaMove)
	return d.leave.Sub(now)
}

// mayWarn reports whether the log is due for another line about a client that is refused.
func (d *sofaDoor) mayWarn() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if now.Sub(d.warned) < warnAgain {
		return false
	}
	d.warned = now
	return true
}

// run serves the connections of a listener until ctx ends.
func (d *sofaDoor) run(ctx context.Context, ln net.Listener) {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		conn, err := ln.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return
		case err != nil: // for example, there are too many open files
			d.config.Logger.Warn("a client of SOFARegistry could not connect", "error", err)
			_ = sleep.For(ctx, 100*time.Millisecond)
		default:
			all.Go(func() {
				defer conn.Close()
				defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
				contain.Run(d.config.Logger, func(error) {}, func() { d.serve(ctx, conn) })
			})
		}
	}
}

// serve serves one connection. It waits where little of its stack is in use: an idle
// connection keeps as much as it uses while it waits.
func (d *sofaDoor) serve(ctx context.Context, conn net.Conn) {
	x := d.welcome(conn)
	defer x.end(ctx)
	for goesOn := true; goesOn; goesOn = x.next(ctx) {
		serve.AwaitRead(conn)
	}
}

// sofaClient is a connection.
type sofaClient struct {
	*sofaDoor
	conn    net.Conn
	address string
	body    *incoming
	stream  *sofa.Stream
	visit   *visit // from its first register that is taken
	release func() // the identity of its token
}

// welcome returns a connection whose client has sent nothing.
func (d *sofaDoor) welcome(conn net.Conn) *sofaClient {
	x := &sofaClient{sofaDoor: d, conn: conn, address: conn.RemoteAddr().String()}
	x.body = &incoming{ReadCloser: endless{conn}, intake: d.intake, host: serve.HostOf(x.address)}
	x.stream = sofa.NewStream(sofa.Config{In: x.body, Conn: conn, Silence: d.config.ClientLease, Leave: d.moveIn, Subscriptions: d.config.MaxSubscriptions})
	return x
}

// next handles what the client sends next, and reports whether the connection goes on.
func (x *sofaClient) next(ctx context.Context) (goesOn bool) {
	if x.visit != nil {
		return x.visit.next()
	}
	token, registers, err := x.stream.Await()
	x.body.handled()
	switch {
	case err != nil:
		return false
	case !registers:
		return true
	}
	if err = x.clients.suspended(); err == nil { // such a client registers before it is welcomed
		err = x.enter(ctx, token)
	}
	if err != nil {
		if x.mayWarn() {
			x.config.Logger.Warn("a client of SOFARegistry is refused, and tries again", "address", x.address, "error", err)
		}
		return x.stream.Refuse(err) == nil
	}
	return x.visit != nil && x.visit.next() && x.visit.next() // the hello, and the register, which has been read
}

// enter begins the visit of the client, or returns why its token is refused.
func (x *sofaClient) enter(ctx context.Context, token string) (err error) {
	identity, release, err := x.identify(rights.Read, token, func() { _ = x.conn.Close() })
	switch {
	case err != nil && token == "":
		return wire.Errorf(wire.CodeUnauthorized, "this cluster needs a token, as the attribute %s of each register", sofa.TokenName)
	case err != nil:
		return err
	}
	x.release = release
	x.visit, err = x.service.welcome(ctx, arrival{
		stream: x.stream, response: x.conn, body: x.body, identity: identity, address: x.address, protocol: "sofa/1", foreign: true,
		alive: x.stream.Alive, linger: registry.FreshFor(x.config.SessionGrace),
	})
	if err != nil {
		x.config.Logger.Debug("a client of SOFARegistry was not welcomed", "address", x.address, "error", err)
	}
	return nil
}

// end is called when the connection has ended.
func (x *sofaClient) end(ctx context.Context) {
	defer x.body.handled()
	if x.release != nil {
		defer x.release()
	}
	defer x.stream.End()
	if x.visit != nil {
		_ = x.visit.leave(ctx) // which logs why
	}
}

// endless is a connection whose end is no orderly one, as the client may come back.
type endless struct{ net.Conn }

// Read implements io.Reader.
func (e endless) Read(p []byte) (int, error) {
	n, err := e.Conn.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// servers returns the addresses of the sessions that serve such clients, and take some.
func (d *sofaDoor) servers() []string {
	open, out := d.clients.addresses(), []string{}
	for _, m := range d.view.State().Members.Of(conclave.RoleSession) {
		if m.Sofa != "" && slices.Contains(open, m.Address) {
			out = append(out, m.Sofa)
		}
	}
	return out
}

// add adds the paths at which clients ask for servers. They take an answer as it is: one
// without a charset or an end of the line.
//
// All servers have the same weight. Of two with different ones the client for Java tries
// only the lighter, also if that has died, until it asks again after half a minute, when
// what it has registered has been removed. What an uneven choice leaves, spread evens out.
func (d *sofaDoor) add(r *mux.Router) {
	for path, show := range map[string]func([]string) string{
		"/api/servers/query":           func(all []string) string { return strings.Join(all, ";") },
		"/api/servers/queryWithWeight": func(all []string) string { return strings.Join(all, "?weight=0;") + "?weight=0" },
		"/api/servers/query.json": func(all []string) string {
			text, _ := json.Marshal(all) // of strings
			return string(text)
		},
	} {
		r.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			all := d.servers()
			if len(all) == 0 {
				serve.WriteError(w, wire.Errorf(wire.CodeNotFound, "no session that takes clients serves those of SOFARegistry (--sofa-listen)"))
				return
			}
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, show(all)) // fails only if the client has disconnected
		}).Methods(http.MethodGet)
	}
}
