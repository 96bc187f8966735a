package outside

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"conclave/wire"
)

// HTTP returns a client for nodes that uses a new connection for each request: on an
// old one the answer could come from a process that was suspended or replaced. dial
// may be nil. settings returns those of a new connection, nil without TLS, and may
// itself be nil.
func HTTP(dial func(ctx context.Context, network, address string) (net.Conn, error), settings func() *tls.Config) *http.Client {
	t := &http.Transport{DisableKeepAlives: true, DialContext: dial, MaxResponseHeaderBytes: 64 << 10}
	if settings == nil {
		return &http.Client{Transport: t}
	}
	return &http.Client{Transport: wire.SecureTransport(t, settings)}
}

// Access is how the nodes of a cluster are reached. Its fields may be set after HTTP and
// Secure were called, before the first request.
type Access struct {
	Operator string             // the operator's token; "": there is none
	TLS      func() *tls.Config // of clients; nil without TLS
}

// Token returns the operator's token.
func (a *Access) Token() string { return a.Operator }

// HTTP is the function HTTP with the certificates of clients, if there are some.
func (a *Access) HTTP(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	return HTTP(dial, a.settings)
}

// Secure returns a transport that uses the certificates of clients, if there are some.
func (a *Access) Secure(t *http.Transport) http.RoundTripper {
	return wire.SecureTransport(t, a.settings)
}

// settings returns the settings of a new connection, or nil without TLS.
func (a *Access) settings() *tls.Config {
	if a.TLS == nil {
		return nil
	}
	return a.TLS()
}

// Condition is what a node reports about itself.
type Condition struct {
	Ready       bool
	Why         string // why it is not ready, or what is wrong although it is
	Name        string
	Incarnation string
}

// Probe requests /healthz and /readyz from a node. It returns an error, and what it
// has learned until then, if the node does not answer. via should be from HTTP.
func Probe(ctx context.Context, via *http.Client, address string) (Condition, error) {
	var c Condition
	var health struct{ Name, Incarnation string }
	if _, err := GetJSON(ctx, via, "http://"+address+"/healthz", "", &health); err != nil {
		return c, err
	}
	c.Name, c.Incarnation = health.Name, health.Incarnation
	var readiness struct{ Reasons []string }
	status, err := GetJSON(ctx, via, "http://"+address+"/readyz", "", &readiness)
	c.Ready, c.Why = err == nil && status == http.StatusOK, strings.Join(readiness.Reasons, "; ")
	return c, err
}

// maxDocument is how much of a document is read.
const maxDocument = 16 << 20

// GetJSON is Get of a document, which it reads into a value whatever the status.
func GetJSON(ctx context.Context, via *http.Client, url, token string, into any) (status int, err error) {
	err = Get(ctx, via, url, token, func(res *http.Response) error {
		status = res.StatusCode
		return json.NewDecoder(io.LimitReader(res.Body, maxDocument)).Decode(into)
	})
	return status, err
}

// Get requests a URL, with a token unless that is "", and calls read with the answer,
// whatever its status.
func Get(ctx context.Context, via *http.Client, url, token string, read func(*http.Response) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	wire.SetToken(req.Header, token)
	res, err := via.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return read(res)
}

// Status returns the status of the answer to a request; 0 if there is none.
func Status(ctx context.Context, via *http.Client, url, token string) (status int) {
	_ = Get(ctx, via, url, token, func(res *http.Response) error { // no answer is a status, too
		status = res.StatusCode
		return nil
	})
	return status
}

// Until calls done, every so often, until it reports true or fails, or until ctx ends,
// whose error it returns then.
func Until(ctx context.Context, every time.Duration, done func() (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if yes, err := done(); yes || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// AwaitReady calls look, every so often, until it reports that all are ready or fails.
// If ctx ends before, it returns its error, and those that were not ready at the last
// look that was complete.
func AwaitReady(ctx context.Context, every time.Duration, look func(context.Context) (ready bool, waiting []string, err error)) (waiting []string, err error) {
	err = Until(ctx, every, func() (bool, error) {
		ready, now, err := look(ctx)
		if ready || err != nil {
			waiting = nil
		} else if ctx.Err() == nil || waiting == nil { // otherwise this look was cut short
			waiting = now
		}
		return ready, err
	})
	return waiting, err
}

// LastLine returns the last line of a log that is not empty, which is usually why its
// process has ended.
func LastLine(log string) string {
	log = strings.TrimSpace(log)
	return strings.TrimSpace(log[strings.LastIndexByte(log, '\n')+1:])
}
