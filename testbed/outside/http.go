package outside

import (
	"bufio"
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
	"strings"
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
// the next version there. When a request fails, all go to the next session. Every second
// registration is renewed without its values, and every second subscription reads events.
// An answer that docs/http.md has no reason for ends the client, and is the error of its
// publications.
type HTTPClient struct {
	config    client.Config
	http      *http.Client
	closeIdle func()
	ctx       context.Context // of all that it does; Kill ends it
	end       context.CancelCauseFunc
	closed    func() // called by Close, not by Kill
	work      sync.WaitGroup

	mu      sync.Mutex // guards the rest
	at      int        // the session that it uses, in config.Sessions
	known   string     // the session that has answered last; "": the last request failed
	left    error      // of the first Close
	streams []func()   // end the streams of events from the session at
	subs    int
	pubs    []*httpPublication
}

var (
	_ testbed.Client      = (*HTTPClient)(nil)
	_ testbed.Publication = (*httpPublication)(nil)
)

const (
	httpTTL    = 5 * time.Second  // a client lease: so long a session keeps what a dead client with the SDK had
	httpLimit  = httpTTL / 3      // for an answer, beside what it was asked to wait: renewAfterMs
	httpRepeat = 15 * time.Second // a session grace, in which a stored withdrawal is repeated
	httpWait   = 5 * time.Second  // for the next version of a list
	httpSilent = 20 * time.Second // for the next line of a stream, in which there is one every 15 s
	httpPause  = 200 * time.Millisecond
)

// NewHTTPClient starts a client, of whose configuration it uses Name, Sessions, Token,
// TLSFrom and Network. closed is called when it was closed, not when it was killed.
func NewHTTPClient(cfg client.Config, closed func()) *HTTPClient {
	if cfg.Network == nil {
		cfg.Network = &wire.TCP{}
	}
	c := &HTTPClient{config: cfg, closed: closed}
	c.ctx, c.end = context.WithCancelCause(context.Background())
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
		renews: len(c.pubs)%2 == 1, wake: make(chan struct{}, 1), want: wanted{values: values, version: time.Now().UnixMicro()}, heard: make(chan struct{}),
	}
	c.pubs = append(c.pubs, p)
	c.work.Go(p.keep)
	return p, nil
}

// Subscribe passes one version on after the other until the client ends.
func (c *HTTPClient) Subscribe(dataID string, pushed func(conclave.Datum)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ctx.Err(); err != nil {
		return err
	}
	path, cursor := "/v1/services/"+url.PathEscape(dataID), ""
	take := func(text []byte) error {
		var list struct {
			conclave.DataInfoID
			Version int64
			Cursor  string
			Values  []string
		}
		if err := json.Unmarshal(text, &list); err != nil || list.Cursor == "" { // an event may be a problem
			return cmp.Or(err, error(refusedBy(http.StatusOK, text)))
		}
		cursor = list.Cursor
		pushed(conclave.Datum{Data: list.DataInfoID, Version: list.Version, Values: list.Values})
		return nil
	}
	ask := func() error {
		_, err := c.call(http.MethodGet, fmt.Sprintf("%s?after=%s&waitMs=%d", path, cursor, wire.Ms(httpWait)), httpWait, nil, take)
		return err
	}
	if c.subs++; c.subs%2 == 0 {
		ask = func() error { return c.stream(path+"/events?after="+cursor, take) }
	}
	c.work.Go(func() {
		for c.ctx.Err() == nil {
			_ = ask() // after an error it has paused
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

// Lease returns how long a session keeps the registrations of a client that has died, and
// for how much longer it keeps all those of this one, at least a nanosecond.
func (c *HTTPClient) Lease() (whole, left time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	left = httpTTL
	for _, p := range c.pubs {
		p.mu.Lock()
		if p.stored > 0 && !p.want.withdrawn {
			left = min(left, time.Until(p.until))
		}
		p.mu.Unlock()
	}
	return httpTTL, max(left, 1)
}

// Close withdraws what the client has registered, and ends it.
func (c *HTTPClient) Close(ctx context.Context) error {
	c.mu.Lock()
	pubs, left := c.pubs, c.left
	c.mu.Unlock()
	for _, p := range pubs {
		_ = p.Withdraw() // it never fails
	}
	err := context.Cause(c.ctx)
	if errors.Is(err, context.Canceled) { // it has ended before
		err, pubs = left, nil
	}
	for _, p := range pubs {
		err = cmp.Or(err, p.Stored(ctx))
	}
	c.mu.Lock()
	c.left = err
	c.mu.Unlock()
	c.Kill()
	c.closed()
	return err
}

// Kill ends the client as if its process had died, and waits until it has ended.
func (c *HTTPClient) Kill() {
	c.mu.Lock()
	c.end(nil)
	c.mu.Unlock()
	c.work.Wait()
	c.closeIdle()
}

// refused is the answer to a request that has failed.
type refused struct {
	status  int
	Code    wire.Code
	Detail  string
	Version int64 // of a conflict: what the registration has
}

// refusedBy reads the problem in an answer. One without a code has none that is known.
func refusedBy(status int, text []byte) refused {
	r := refused{status: status}
	_ = json.Unmarshal(text, &r) // otherwise the status has to do
	r.Code = cmp.Or(r.Code, wire.CodeInternal)
	return r
}

func (r refused) Error() string { return fmt.Sprintf("%d: %s", r.status, r.Detail) }

func (r refused) Unwrap() error { return wire.Errorf(r.Code, "%s", r.Detail) }

// call sends a request to the session at, which is the client's, and passes the answer to
// take.
func (c *HTTPClient) call(method, path string, waits time.Duration, body any, take func([]byte) error) (at int, err error) {
	c.mu.Lock()
	at = c.at
	c.mu.Unlock()
	ctx, end := context.WithTimeout(c.ctx, waits+httpLimit)
	defer end()
	return at, c.settle(method, at, c.send(ctx, method, at, path, body, func(answer io.Reader) error {
		text, err := io.ReadAll(answer)
		if err != nil {
			return err
		}
		return take(text)
	}))
}

// stream asks the client's session for events, and passes each to take until the stream
// ends, which is an error, too: the session may want its clients to go to another one.
func (c *HTTPClient) stream(path string, take func([]byte) error) error {
	ctx, end := context.WithCancel(c.ctx)
	defer end()
	silent := time.AfterFunc(httpLimit, end)
	defer silent.Stop()
	c.mu.Lock()
	at := c.at
	c.streams = append(c.streams, end)
	c.mu.Unlock()
	return c.settle(http.MethodGet, at, c.send(ctx, http.MethodGet, at, path, nil, func(answer io.Reader) error {
		lines := bufio.NewScanner(answer)
		lines.Buffer(nil, conclave.MaxRequest)
		for ; lines.Scan(); silent.Reset(httpSilent) {
			if text, is := strings.CutPrefix(lines.Text(), "data: "); is {
				if err := take([]byte(text)); err != nil {
					return err
				}
			}
		}
		return cmp.Or(lines.Err(), io.EOF)
	}))
}

// settle decides what follows from the outcome of a request to a session. If the request
// has failed, the next session is the client's, after a pause, unless that has answered
// what the registration is there.
func (c *HTTPClient) settle(method string, at int, err error) error {
	r, is := errors.AsType[refused](err)
	switch {
	case err == nil, is && r.status == http.StatusConflict && method != http.MethodGet, is && r.status == http.StatusNotFound && method == http.MethodPost:
		return err
	case is && r.status != http.StatusServiceUnavailable && r.status != http.StatusTooManyRequests:
		c.end(fmt.Errorf("%s is answered %w", method, err))
	}
	c.mu.Lock()
	if c.at == at {
		for _, end := range c.streams {
			end()
		}
		c.at, c.known, c.streams = c.at+1, "", nil
	}
	c.mu.Unlock()
	_ = sleep.For(c.ctx, httpPause)
	return err
}

func (c *HTTPClient) send(ctx context.Context, method string, at int, path string, body any, take func(io.Reader) error) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.config.Sessions[at%len(c.config.Sessions)]+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	wire.SetToken(req.Header, c.config.Token)
	answer, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode == http.StatusNoContent:
		return nil
	case answer.StatusCode >= http.StatusMultipleChoices:
		got, err := io.ReadAll(answer.Body)
		if err != nil {
			return err
		}
		return refusedBy(answer.StatusCode, got)
	}
	return take(answer.Body)
}

// httpPublication is one registration, kept by one goroutine.
type httpPublication struct {
	client *HTTPClient
	path   string
	renews bool          // without its values
	wake   chan struct{} // there is another want

	mu     sync.Mutex // guards the rest
	want   wanted
	stored int           // how many changes data has, the registration included
	until  time.Time     // at least until then its session keeps it, if stored
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
			return context.Cause(p.client.ctx)
		}
	}
}

// keep registers what is wanted, and renews it, until the client ends. A withdrawal is
// repeated for a session grace, with its version: its session may die together with the
// leader of its slot, before another data node has heard of it.
func (p *httpPublication) keep() {
	held := int64(0)        // the version that the session has which was asked last
	var withdrawn time.Time // when data had the withdrawal
	for p.client.ctx.Err() == nil && (withdrawn.IsZero() || time.Since(withdrawn) < httpRepeat) {
		p.mu.Lock()
		w := p.want
		p.mu.Unlock()
		until := time.Now().Add(httpTTL)
		answer, err := p.ask(w, p.renews && held == w.version)
		r, _ := errors.AsType[refused](err)
		if held = w.version; err != nil {
			held = 0
		}
		if err != nil && !withdrawn.IsZero() {
			if r.status == http.StatusConflict {
				return // something newer was registered, which a higher version would withdraw
			}
			continue
		}
		if err != nil && r.status != http.StatusNotFound { // it may have arrived all the same, and may do so late
			p.mu.Lock()
			p.want.version = max(p.want.version, r.Version) + 1
			p.mu.Unlock()
		}
		if err != nil || !answer.Stored {
			continue // if it was not stored, it was asked to wait
		}
		p.mu.Lock()
		p.stored, p.until = max(p.stored, w.change+1), until
		close(p.heard)
		p.heard = make(chan struct{})
		p.mu.Unlock()
		if w.withdrawn && withdrawn.IsZero() {
			withdrawn = time.Now()
		}
		timer := time.NewTimer(cmp.Or(time.Duration(answer.RenewAfterMs)*time.Millisecond, httpLimit)) // that of a withdrawal has none
		select {
		case <-p.wake:
		case <-timer.C:
		case <-p.client.ctx.Done():
		}
		timer.Stop()
	}
}

// ask sends one request for the registration.
func (p *httpPublication) ask(w wanted, renew bool) (answer registered, err error) {
	method, path, body := http.MethodPut, p.path, any(map[string]any{"values": w.values, "version": w.version, "ttlMs": wire.Ms(httpTTL)})
	switch version := "?version=" + strconv.FormatInt(w.version, 10); {
	case w.withdrawn:
		method, path, body = http.MethodDelete, p.path+version, nil
	case renew:
		method, path, body = http.MethodPost, p.path+"/renew"+version, nil
	}
	c := p.client
	at, err := c.call(method, path, 0, body, func(text []byte) error { return json.Unmarshal(text, &answer) })
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && c.at == at {
		c.known = answer.Session
	}
	return answer, err
}
