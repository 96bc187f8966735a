package outside

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"conclave"
	"conclave/client"
	"conclave/internal/sleep"
	"conclave/testbed"
	"conclave/wire"
)

// HTTPClient is a client without the SDK, which does what docs/http.md asks of a program:
// each registration is kept by requests to one session, and each subscription waits for
// the next version there. When a request fails, all go to the next session.
type HTTPClient struct {
	config    client.Config
	http      *http.Client
	closeIdle func()
	ctx       context.Context // of all that it does; Kill ends it
	end       context.CancelFunc
	closed    func() // called by Close, not by Kill
	work      sync.WaitGroup

	mu    sync.Mutex // guards the rest
	at    int        // the session that it uses, in config.Sessions
	known string     // the session that has answered last; "": the last request failed
	pubs  []*httpPublication
}

var (
	_ testbed.Client      = (*HTTPClient)(nil)
	_ testbed.Publication = (*httpPublication)(nil)
)

const (
	httpTTL   = 5 * time.Second // a client lease: so long a session keeps what a dead client with the SDK had
	httpLimit = 3 * time.Second // for an answer, beside what it was asked to wait
	httpWait  = 5 * time.Second // for the next version of a list
	httpPause = 200 * time.Millisecond
)

// NewHTTPClient starts a client, of whose configuration it uses Name, Sessions, Token,
// TLSFrom and Network. closed is called when it was closed, not when it was killed.
func NewHTTPClient(cfg client.Config, closed func()) *HTTPClient {
	if cfg.Network == nil {
		cfg.Network = &wire.TCP{}
	}
	c := &HTTPClient{config: cfg, closed: closed}
	c.ctx, c.end = context.WithCancel(context.Background())
	transport := &http.Transport{DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(c.ctx, httpLimit) // not the request's: another one may use the connection
		defer cancel()
		return cfg.Network.DialContext(ctx, network, address)
	}}
	c.http, c.closeIdle = &http.Client{Transport: transport}, transport.CloseIdleConnections
	if cfg.TLSFrom != nil {
		c.http.Transport = wire.SecureTransport(transport, cfg.TLSFrom)
	}
	return c
}

// Publish begins to keep a registration.
func (c *HTTPClient) Publish(_ context.Context, dataID string, values []string) (testbed.Publication, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	p := &httpPublication{
		client: c, path: fmt.Sprintf("/v1/services/%s/registrations/%s-%d", url.PathEscape(dataID), c.config.Name, len(c.pubs)+1),
		wake: make(chan struct{}, 1), want: wanted{values: values, version: time.Now().UnixMicro()}, heard: make(chan struct{}),
	}
	c.pubs = append(c.pubs, p)
	c.work.Go(p.keep)
	return p, nil
}

// Subscribe waits for one version after the other until the client ends.
func (c *HTTPClient) Subscribe(dataID string, pushed func(conclave.Datum)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ctx.Err(); err != nil {
		return err
	}
	c.work.Go(func() {
		for cursor := ""; c.ctx.Err() == nil; {
			var list struct {
				conclave.DataInfoID
				Version int64
				Cursor  string
				Values  []string
			}
			path := fmt.Sprintf("/v1/services/%s?after=%s&waitMs=%d", url.PathEscape(dataID), cursor, wire.Ms(httpWait))
			if err := c.call(http.MethodGet, path, httpWait, nil, &list); err != nil || list.Cursor == "" {
				continue
			}
			cursor = list.Cursor
			pushed(conclave.Datum{Data: list.DataInfoID, Version: list.Version, Values: list.Values})
		}
	})
	return nil
}

// Connected returns the session that has answered, until a request fails.
func (c *HTTPClient) Connected() []conclave.NodeID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == "" {
		return nil
	}
	return []conclave.NodeID{{Name: c.known}}
}

// Lease returns how long a session keeps the registrations of a client that has died.
func (c *HTTPClient) Lease() time.Duration { return httpTTL }

// Close withdraws what the client has registered, and ends it.
func (c *HTTPClient) Close(ctx context.Context) error {
	c.mu.Lock()
	pubs := c.pubs
	c.mu.Unlock()
	for _, p := range pubs {
		_ = p.Withdraw() // it never fails
	}
	var err error
	for _, p := range pubs {
		err = cmp.Or(err, p.Stored(ctx))
	}
	c.Kill()
	c.closed()
	return err
}

// Kill ends the client as if its process had died, and waits until it has ended.
func (c *HTTPClient) Kill() {
	c.mu.Lock()
	c.end()
	c.mu.Unlock()
	c.work.Wait()
	c.closeIdle()
}

// refused is the answer to a request that has failed.
type refused struct {
	status  int
	Detail  string
	Version int64 // of a conflict: what the registration has
}

func (r refused) Error() string { return fmt.Sprintf("%d: %s", r.status, r.Detail) }

// call sends a request to the client's session, and decodes the answer into out. If it
// fails, but for a conflict, the next session is the client's, and call pauses.
func (c *HTTPClient) call(method, path string, waits time.Duration, body, out any) error {
	c.mu.Lock()
	at := c.at
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(c.ctx, waits+httpLimit)
	err := c.send(ctx, method, c.config.Sessions[at%len(c.config.Sessions)]+path, body, out)
	cancel()
	r, ok := errors.AsType[refused](err)
	c.mu.Lock()
	if answer, has := out.(*registered); has && err == nil && c.at == at {
		c.known = answer.Session
	}
	if err == nil || ok && r.status == http.StatusConflict {
		c.mu.Unlock()
		return err
	}
	if c.at == at {
		c.at++
		c.known = ""
	}
	c.mu.Unlock()
	_ = sleep.For(c.ctx, httpPause)
	return err
}

func (c *HTTPClient) send(ctx context.Context, method, to string, body, out any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+to, bytes.NewReader(text))
	if err != nil {
		return err
	}
	wire.SetToken(req.Header, c.config.Token)
	answer, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return err
	case answer.StatusCode == http.StatusNoContent:
		return nil
	case answer.StatusCode >= http.StatusMultipleChoices:
		r := refused{status: answer.StatusCode}
		_ = json.Unmarshal(got, &r) // otherwise the status has to do
		return r
	}
	return json.Unmarshal(got, out)
}

// httpPublication is one registration, kept by one goroutine.
type httpPublication struct {
	client *HTTPClient
	path   string
	wake   chan struct{} // there is another want

	mu     sync.Mutex // guards the rest
	want   wanted
	stored int           // how many changes data has, the registration included
	heard  chan struct{} // closed when stored changes
}

// registered is the answer to a request for a registration.
type registered struct {
	Stored       bool
	RenewAfterMs int64
	Session      string
}

// wanted is what is to be registered.
type wanted struct {
	values    []string
	withdrawn bool
	version   int64
	change    int // how often it has changed
}

// Update registers other values.
func (p *httpPublication) Update(values []string) error {
	return p.alter(func(w *wanted) { w.values = values })
}

// Withdraw ends the registration.
func (p *httpPublication) Withdraw() error { return p.alter(func(w *wanted) { w.withdrawn = true }) }

func (p *httpPublication) alter(how func(*wanted)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.want.withdrawn {
		return nil
	}
	how(&p.want)
	p.want.version++
	p.want.change++
	select {
	case p.wake <- struct{}{}:
	default: // keep will see this one, too
	}
	return nil
}

// Stored waits until data has the last change.
func (p *httpPublication) Stored(ctx context.Context) error {
	for {
		p.mu.Lock()
		done, heard := p.stored > p.want.change, p.heard
		p.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-heard:
		case <-ctx.Done():
			return ctx.Err()
		case <-p.client.ctx.Done():
			return p.client.ctx.Err()
		}
	}
}

// keep registers what is wanted, and renews it, until it is withdrawn or the client ends.
func (p *httpPublication) keep() {
	for p.client.ctx.Err() == nil {
		p.mu.Lock()
		w := p.want
		p.mu.Unlock()
		var answer registered
		var err error
		if w.withdrawn {
			err = p.client.call(http.MethodDelete, p.path+"?version="+strconv.FormatInt(w.version, 10), 0, nil, &answer)
		} else {
			err = p.client.call(http.MethodPut, p.path, 0, map[string]any{"values": w.values, "version": w.version, "ttlMs": wire.Ms(httpTTL)}, &answer)
		}
		if err != nil { // it may have arrived all the same, and may do so late
			r, _ := errors.AsType[refused](err)
			p.mu.Lock()
			p.want.version = max(p.want.version, r.Version) + 1
			p.mu.Unlock()
			continue
		}
		if !answer.Stored {
			continue // it was asked to wait, and is now asked again
		}
		p.mu.Lock()
		p.stored = max(p.stored, w.change+1)
		close(p.heard)
		p.heard = make(chan struct{})
		p.mu.Unlock()
		if w.withdrawn {
			return
		}
		timer := time.NewTimer(time.Duration(answer.RenewAfterMs) * time.Millisecond)
		select {
		case <-p.wake:
		case <-timer.C:
		case <-p.client.ctx.Done():
		}
		timer.Stop()
	}
}
