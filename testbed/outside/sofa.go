package outside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"conclave"
	"conclave/client"
	"conclave/internal/sleep"
	"conclave/session/sofa"
	"conclave/testbed"
)

// SofaClient is a client of SOFARegistry (docs/sofa.md), with the habits of the published
// one for Java: it has one connection, on which it sends one register after the other, each
// once the one before was answered or has waited for a second, and then those again that were
// not answered. On the next connection it sends all of them. It forgets a register that
// withdraws once that is answered. It takes a list only if its version is above that of the
// last one. An answer for which docs/sofa.md has no reason ends the client, and is the error of
// its publications.
type SofaClient struct {
	config client.Config
	rand   *rand.Rand // of run
	ctx    context.Context
	end    context.CancelCauseFunc
	closed func() // called by Close, not by Kill
	work   sync.WaitGroup
	wake   chan struct{} // there is a register to send

	mu        sync.Mutex // guards the rest
	servers   []string   // that take such clients, as of the last answer
	conn      net.Conn   // nil: none
	at        string     // the session of the last connection
	known     bool       // it has answered a register on this connection
	received  time.Time  // when it has last sent something
	requests  uint32
	waiting   map[uint32]chan sofa.Frame // for the answers to requests
	registers []*sofaRegister
	made      int           // registers, also those that were withdrawn
	answered  chan struct{} // closed when a register was answered
	left      error         // of the first Close
}

var (
	_ testbed.Client      = (*SofaClient)(nil)
	_ testbed.Publication = (*sofaRegister)(nil)
)

const (
	sofaAnswer    = time.Second            // for an answer
	sofaAgain     = 500 * time.Millisecond // until a register is sent again that was not answered, and until a lost connection is noticed
	sofaDial      = 3 * time.Second
	sofaReconnect = 5 * time.Second  // sleeps up to it after a server that cannot be dialled, and for it after all of them
	sofaPoll      = 30 * time.Second // between two requests for servers, or for settings
	sofaIdle      = 15 * time.Second // of silence, until a heartbeat; after three of them the connection ends
	sofaSilent    = 3 * time.Second  // of silence, until it does not count as connected: a session sends something three times in 5 s
	sofaLinger    = 10 * time.Second // two thirds of a session grace: so long a session keeps what a client had
)

// sofaModel begins the names of all classes.
const sofaModel = "com.alipay.sofa.registry.core.model."

// sofaRegister is a publisher or a subscriber.
type sofaRegister struct {
	client          *SofaClient
	kind            sofa.Kind
	id, data, event string
	version         int64
	values          []string
	has             net.Conn             // has answered this version
	pushed          func(conclave.Datum) // of a subscriber
	newest          int64                // version of its last list
}

// NewSofaClient starts a client, of whose configuration it uses Name, Sessions, Rand and
// Network. closed is called when it was closed, not when it was killed.
func NewSofaClient(cfg client.Config, closed func()) *SofaClient {
	c := &SofaClient{config: cfg, rand: cfg.Rand, closed: closed, wake: make(chan struct{}, 1), waiting: map[uint32]chan sofa.Frame{}, answered: make(chan struct{})}
	c.ctx, c.end = context.WithCancelCause(context.Background())
	context.AfterFunc(c.ctx, c.disconnect)
	c.work.Go(c.run)
	c.work.Go(func() {
		for sleep.For(c.ctx, sofaPoll) == nil {
			c.find()
		}
	})
	return c
}

// Publish begins to keep a publisher.
func (c *SofaClient) Publish(_ context.Context, dataID string, values []string) (testbed.Publication, error) {
	return c.add(&sofaRegister{kind: sofa.Publisher, data: dataID, values: values})
}

// Subscribe begins to keep a subscriber.
func (c *SofaClient) Subscribe(dataID string, pushed func(conclave.Datum)) error {
	_, err := c.add(&sofaRegister{kind: sofa.Subscriber, data: dataID, pushed: pushed})
	return err
}

func (c *SofaClient) add(r *sofaRegister) (testbed.Publication, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	c.made++
	r.client, r.id, r.event, r.version = c, fmt.Sprintf("%s-%d", c.config.Name, c.made), "REGISTER", 1
	c.registers = append(c.registers, r)
	c.send()
	return r, nil
}

// send has registers sent. mu is held.
func (c *SofaClient) send() {
	select {
	case c.wake <- struct{}{}:
	default: // they will be seen, too
	}
}

// Connected returns the session that has answered a register on the connection, unless it
// is silent.
func (c *SofaClient) Connected() []conclave.NodeID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil || !c.known || time.Since(c.received) > sofaSilent {
		return nil
	}
	return []conclave.NodeID{{Name: c.at}}
}

// Linger returns how long sessions keep the registrations of a client whose connection has
// ended, and for how much longer they keep those of this one.
func (c *SofaClient) Linger() (whole, left time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return sofaLinger, max(0, sofaLinger-time.Since(c.received))
}

// Close withdraws what the client has registered, and ends it.
func (c *SofaClient) Close(ctx context.Context) error {
	c.mu.Lock()
	pubs, err := slices.DeleteFunc(slices.Clone(c.registers), func(r *sofaRegister) bool { return r.kind != sofa.Publisher }), c.left
	c.mu.Unlock()
	if cause := context.Cause(c.ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	} else if cause == nil {
		for _, p := range pubs {
			_ = p.Withdraw() // it never fails
		}
		for _, p := range pubs {
			if stored := p.Stored(ctx); err == nil {
				err = stored
			}
		}
	}
	c.mu.Lock()
	c.left = err
	c.mu.Unlock()
	c.Kill()
	c.closed()
	return err
}

// Kill ends the client as if its process had died, and waits until it has ended.
func (c *SofaClient) Kill() {
	c.mu.Lock()
	c.end(nil)
	c.mu.Unlock()
	c.work.Wait()
}

func (c *SofaClient) disconnect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

// run keeps a connection until the client ends.
func (c *SofaClient) run() {
	for c.ctx.Err() == nil {
		conn := c.connect()
		if conn == nil {
			return
		}
		ended := make(chan struct{})
		c.work.Go(func() {
			defer close(ended)
			c.receive(conn)
		})
		c.serve(conn, ended)
		_ = conn.Close()
		<-ended
		c.mu.Lock()
		c.conn, c.known = nil, false
		c.mu.Unlock()
		_ = sleep.For(c.ctx, c.upTo(sofaAgain))
	}
}

// upTo draws a duration.
func (c *SofaClient) upTo(most time.Duration) time.Duration {
	return time.Duration(c.rand.Int64N(int64(most)))
}

// connect returns a connection to a server, nil once the client has ended.
func (c *SofaClient) connect() net.Conn {
	for {
		c.mu.Lock()
		servers := c.servers
		c.mu.Unlock()
		if len(servers) == 0 {
			servers = c.find()
		}
		for _, i := range c.rand.Perm(len(servers)) {
			if conn := c.dial(servers[i]); conn != nil {
				return conn
			}
			if sleep.For(c.ctx, c.upTo(sofaReconnect)) != nil {
				return nil
			}
		}
		if sleep.For(c.ctx, sofaReconnect) != nil {
			return nil
		}
	}
}

// dial connects to a server, or returns nil.
func (c *SofaClient) dial(server string) net.Conn {
	ctx, end := context.WithTimeout(c.ctx, sofaDial)
	defer end()
	conn, err := c.config.Network.DialContext(ctx, "tcp", server)
	if err != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		_ = conn.Close()
		return nil
	}
	c.conn, c.received = conn, time.Now()
	c.at, _, _ = net.SplitHostPort(server)
	return conn
}

// find asks one session after the other for the servers, until one has an answer.
func (c *SofaClient) find() []string {
	via := &http.Client{Transport: &http.Transport{DialContext: c.config.Network.DialContext, DisableKeepAlives: true}, Timeout: sofaDial}
	for _, session := range c.config.Sessions {
		req, err := http.NewRequestWithContext(c.ctx, http.MethodGet, "http://"+session+"/api/servers/query?appName="+c.config.Name, nil)
		if err != nil {
			break
		}
		answer, err := via.Do(req)
		if err != nil {
			continue
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close() // after ReadAll there is nothing to lose
		if err == nil && answer.StatusCode == http.StatusOK {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.servers = strings.Split(string(text), ";")
			return c.servers
		}
	}
	return nil
}

// serve sends registers on a connection until that has ended.
func (c *SofaClient) serve(conn net.Conn, ended <-chan struct{}) {
	poll, idle, missed := time.NewTicker(sofaPoll), time.NewTicker(sofaIdle), 0
	defer poll.Stop()
	defer idle.Stop()
	for {
		for _, r := range c.unanswered(conn) {
			c.register(conn, ended, r)
		}
		again := time.NewTimer(sofaAgain)
		select {
		case <-c.wake:
		case <-again.C:
		case <-poll.C:
			c.call(conn, ended, sofaModel+"SyncConfigRequest", "dataCenter zone", "DefaultDataCenter", sofa.DefaultZone)
		case now := <-idle.C:
			c.mu.Lock()
			silent := now.Sub(c.received) >= sofaIdle
			c.mu.Unlock()
			if missed++; !silent {
				missed = 0
			} else if missed > 3 {
				return
			} else if c.write(conn, sofa.Frame{Type: sofa.Request, Timeout: -1}) != nil {
				return
			}
		case <-ended:
			again.Stop()
			return
		}
		again.Stop()
	}
}

// unanswered returns the registers that were not answered on a connection.
func (c *SofaClient) unanswered(conn net.Conn) []*sofaRegister {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.registers), func(r *sofaRegister) bool { return r.has == conn })
}

// register sends a register, and waits for its answer.
func (c *SofaClient) register(conn net.Conn, ended <-chan struct{}, kept *sofaRegister) {
	c.mu.Lock()
	r := *kept
	c.mu.Unlock()
	class, boxes := sofaModel+string(r.kind), &sofa.List{}
	for _, v := range r.values {
		boxes.Values = append(boxes.Values, sofaObject(sofaModel+"DataBox", "data", v))
	}
	answer := c.call(conn, ended, class, "registId dataId eventType version scope dataList", r.id, r.data, r.event, r.version, "dataCenter", boxes)
	v, err := sofa.Decode(answer.Content)
	o, _ := v.(*sofa.Object)
	if o == nil {
		if answer.ID != 0 {
			c.end(errors.Join(fmt.Errorf("%s is answered with status %d", r.id, answer.Status), err))
		}
		return
	}
	if field(o, "refused") == true || field(o, "version") != any(r.version) {
		c.end(fmt.Errorf("version %d of %s is refused: %v of version %v", r.version, r.id, field(o, "message"), field(o, "version")))
		return
	}
	if field(o, "success") != true {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = true
	if kept.version == r.version {
		if kept.has = conn; r.event != "REGISTER" {
			c.registers = slices.DeleteFunc(c.registers, func(x *sofaRegister) bool { return x == kept })
		}
	}
	close(c.answered)
	c.answered = make(chan struct{})
}

// call sends a request, and returns its answer; without an ID there is none.
func (c *SofaClient) call(conn net.Conn, ended <-chan struct{}, class, fields string, values ...any) sofa.Frame {
	c.mu.Lock()
	c.requests++
	id, answer := c.requests, make(chan sofa.Frame, 1)
	c.waiting[id] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
	}()
	content := sofa.Encode(sofaObject(class, fields, values...))
	if c.write(conn, sofa.Frame{Type: sofa.Request, Command: 1, ID: id, Timeout: int32(sofaAnswer / time.Millisecond), Class: class, Content: content}) != nil {
		return sofa.Frame{}
	}
	late := time.NewTimer(sofaAnswer)
	defer late.Stop()
	select {
	case f := <-answer:
		return f
	case <-late.C:
	case <-ended:
	}
	return sofa.Frame{}
}

func (c *SofaClient) write(conn net.Conn, f sofa.Frame) error {
	f.Codec = 1
	_, err := conn.Write(f.Append(nil))
	return err
}

// receive reads and answers what a session sends until the connection ends.
func (c *SofaClient) receive(conn net.Conn) {
	for {
		f, err := sofa.ReadFrame(conn)
		if err != nil {
			return
		}
		c.mu.Lock()
		c.received = time.Now()
		waiting := c.waiting[f.ID]
		c.mu.Unlock()
		answer := sofa.Frame{ID: f.ID}
		switch {
		case f.Type != sofa.Response && f.Command == 0:
		case f.Type != sofa.Response:
			answer.Command, answer.Class = 2, sofaModel+"Result"
			answer.Content = sofa.Encode(sofaObject(answer.Class, "success message", c.take(f), nil))
		default:
			if waiting != nil {
				waiting <- f
			}
			continue
		}
		if c.write(conn, answer) != nil {
			return
		}
	}
}

// take passes on a list to its subscribers.
func (c *SofaClient) take(f sofa.Frame) (taken bool) {
	v, err := sofa.Decode(f.Content)
	o, ok := v.(*sofa.Object)
	ids, _ := field(o, "subscriberRegistIds").(*sofa.List)
	zones, _ := field(o, "data").(*sofa.Map)
	version, _ := field(o, "version").(int64)
	if !ok || ids == nil || zones == nil || field(o, "segment") != "DefaultDataCenter" {
		c.end(fmt.Errorf("%s cannot be read: %w", f.Class, err))
		return false
	}
	d := conclave.Datum{Version: version, Values: []string{}}
	for _, zone := range zones.Values {
		values, ok := zone.(*sofa.List)
		for i := 0; ok && i < len(values.Values); i++ {
			box, _ := values.Values[i].(*sofa.Object)
			text, _ := field(box, "data").(string)
			d.Values = append(d.Values, text)
		}
	}
	for _, id := range ids.Values {
		c.mu.Lock()
		var pushed func(conclave.Datum)
		for _, r := range c.registers {
			if r.id == id && r.newest < version {
				r.newest, pushed = version, r.pushed
				d.Data = conclave.DataInfoID{DataID: r.data}
			}
		}
		c.mu.Unlock()
		if pushed != nil {
			pushed(d)
		}
	}
	return true
}

// sofaObject returns an object of a class with these fields.
func sofaObject(class, fields string, values ...any) *sofa.Object {
	return &sofa.Object{Class: &sofa.Class{Name: class, Fields: strings.Fields(fields)}, Values: values}
}

// field returns a field of an object, nil if there is none. o may be nil.
func field(o *sofa.Object, name string) any {
	if o != nil {
		if at := slices.Index(o.Class.Fields, name); at >= 0 {
			return o.Values[at]
		}
	}
	return nil
}

// Update registers other values.
func (r *sofaRegister) Update(values []string) error {
	return r.alter(func() { r.values = values })
}

// Withdraw ends the registration.
func (r *sofaRegister) Withdraw() error {
	return r.alter(func() { r.event, r.values = "UNREGISTER", nil })
}

func (r *sofaRegister) alter(how func()) error {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	if r.event == "REGISTER" {
		how()
		r.version, r.has = r.version+1, nil
		r.client.send()
	}
	return nil
}

// Stored waits until the last change was answered: one that withdraws once data has it, any
// other one once a session has it, since the client sends that again to the next.
func (r *sofaRegister) Stored(ctx context.Context) error {
	for c := r.client; ; {
		c.mu.Lock()
		done, answered := r.has != nil, c.answered
		c.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-answered:
		case <-ctx.Done():
			return ctx.Err()
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		}
	}
}
