package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"conclave"
	"conclave/internal/signal"
	"conclave/wire"
	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

// link is one connection to one session: a stream on which everything is sent
// from the beginning, since this session knows nothing of the client yet.
type link struct {
	client   *Client
	address  string
	stream   *connect.BidiStreamForClient[wirev1.ClientMessage, wirev1.ServerMessage]
	ready    signal.Signal     // there is something to send
	move     chan *wirev1.Move // the session asks the client to move; room for one
	settled  signal.Signal     // owed may have become empty
	received signal.Signal     // a message of the session has arrived
	leave    chan struct{}     // closed by end: end the request in order
	cancel   context.CancelCauseFunc
	done     chan struct{} // closed when the stream has ended and both loops have returned
	err      error         // why the stream ended; read after done

	session conclave.NodeID // set before the link is used
	number  uint64          // of the connection at the session
	ping    time.Duration   // between two pings
	pings   signal.Signal   // a ping is to be sent on the stream
	idle    atomic.Bool     // nothing waits on the stream, and the session has accepted what was sent

	// Guarded by client.mu.
	seq          uint64 // numbers the links of the client
	windows      windows
	waiting      waiting
	owed         map[*Publication]bool // not acknowledged by this session as stored
	subscribes   []*Subscription
	unsubscribes []string
	watches      []string
	unwatches    []string
	unfit        map[*Subscription]bool // the whole list is to be asked for, because a delta or a part did not fit
	arriving     map[*Subscription]*list.Assembly
	over         over // what is over a limit of this session
	goodbye      bool
}

// Time limits.
const (
	leaveLimit   = time.Second
	silentRounds = 5 // of half a ping each, without a message of the session
)

var (
	errSilent = errors.New("the session was silent for two pings")
	errLeft   = errors.New("left")
)

// greet opens a link and waits until the session has welcomed the client, to which it
// has sent no more than its name. ctx, limit and the end of the client limit the
// greeting only. Afterwards either adopt or abandon must be called.
func (c *Client) greet(caller context.Context, a *attempt, limit time.Duration) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(caller))
	stopWaiting := context.AfterFunc(caller, func() { cancel(context.Cause(caller)) })
	defer stopWaiting()
	l := &link{
		client: c, address: a.address, cancel: cancel, ready: signal.New(), move: make(chan *wirev1.Move, 1), settled: signal.New(), pings: signal.New(),
		received: signal.New(), leave: make(chan struct{}), done: make(chan struct{}),
		owed: map[*Publication]bool{}, unfit: map[*Subscription]bool{}, arriving: map[*Subscription]*list.Assembly{},
	}
	connected, err := c.pace(ctx)
	a.begun.Store(max(1, int64(time.Since(a.since))))
	if err != nil {
		cancel(nil)
		a.err = fmt.Errorf("connect to %s: %w", a.address, err)
		return
	}
	defer connected()
	c.readToken()
	timeout := time.AfterFunc(limit, func() { cancel(errSilent) })
	defer timeout.Stop()
	l.stream = c.peers.Client(a.address).Connect(ctx)
	// net/http notices the end of the context only when it is not waiting for
	// more of the request's body. Closing the request here, as a last message,
	// has no effect, since nothing has been registered yet.
	abort := context.AfterFunc(ctx, func() { _ = l.stream.CloseRequest() })
	a.ctx, a.link = ctx, l
	a.welcome, err = l.hello(func(d time.Duration) { a.waits.Store(true); timeout.Reset(d) })
	abort() // before anything is registered: from now on only run ends the link
	if err == nil {
		return
	}
	cancel(nil)
	_ = l.stream.CloseRequest()
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		err = cause
	}
	a.err = fmt.Errorf("connect to %s: %w", a.address, wire.FromConnect(err))
}

// abandon ends the link of an attempt that another one has overtaken.
func (a *attempt) abandon() {
	if a.err == nil {
		a.link.abort()
		_ = a.link.stream.CloseRequest()
		_ = a.link.stream.CloseResponse()
	}
}

// adopt queues everything on the link of an attempt that has won. It is one of the
// client's links until its done is closed.
func (c *Client) adopt(a *attempt) *link {
	l, welcome := a.link, a.welcome
	l.session = wire.NodeIn(welcome.GetWelcome().GetSession())
	l.number = welcome.GetWelcome().GetConnection()
	l.ping = max(wire.FromMs(welcome.GetWelcome().GetClientLeaseMs())/5, 50*time.Millisecond)
	l.windows = newWindows(l.ping / 4)

	c.mu.Lock()
	c.lease = wire.FromMs(welcome.GetWelcome().GetClientLeaseMs())
	c.remember = wire.FromMs(welcome.GetWelcome().GetRememberMs())
	c.seq++
	l.seq = c.seq
	for _, p := range c.sorted() {
		l.queue(p)
	}
	l.subscribes = c.sortedSubs()
	l.watches = c.watchedIDs()
	c.links = append(c.links, l)
	c.mu.Unlock()
	c.noteAccepted()
	c.log.Info("connected", "session", l.session.String(), "address", l.address)
	if err := l.handle(welcome); err != nil { // the welcome carries a refusal for now
		l.cancel(err)
	}
	l.settled.Set()
	c.background.Go(func() { l.run(a.ctx) })
	return l
}

// pace waits until the network lets this client connect, and returns what is to be
// called once it has. The real network limits how many clients of one process
// connect at the same time.
func (c *Client) pace(ctx context.Context) (done func(), err error) {
	if n, ok := c.config.Network.(interface {
		Pace(context.Context) (func(), error)
	}); ok {
		return n.Pace(ctx)
	}
	return func() {}, nil
}

// hello sends the first message and returns the answer to it. While the session
// answers that the client must wait, it calls wait with the time after which the
// session answers again.
func (l *link) hello(wait func(time.Duration)) (*wirev1.ServerMessage, error) {
	err := l.stream.Send(&wirev1.ClientMessage{Hello: &wirev1.ClientHello{
		Client: l.client.id, Name: l.client.config.Name, LingerMs: wire.Ms(l.client.config.Linger), Deltas: true, Parts: true,
	}})
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	m, err := l.stream.Receive() // also returns why a Send failed with io.EOF
	for err == nil && m.GetWaitMs() > 0 && m.GetWelcome() == nil {
		wait(wire.FromMs(m.GetWaitMs()))
		m, err = l.stream.Receive()
	}
	if err == nil && m.GetWelcome() == nil {
		err = errors.New("the session's first message is not a welcome")
	}
	return m, err
}

// run sends and receives until the stream ends: a sender, a receiver, and this
// goroutine, which pings and watches for silence. However the stream ends, run
// only breaks the request off: an orderly end of the request is the client's
// last message, see runSend.
func (l *link) run(ctx context.Context) {
	defer close(l.done)
	var all sync.WaitGroup
	all.Go(func() { l.runSend(ctx) })
	all.Go(func() { l.cancel(l.runReceive()) })
	l.cancel(l.watch(ctx, &all))
	_ = l.stream.CloseResponse() // breaks the stream off and unblocks the others
	all.Wait()
	l.err = context.Cause(ctx)

	c := l.client
	c.mu.Lock()
	c.links = slices.DeleteFunc(slices.Clone(c.links), func(other *link) bool { return other == l })
	c.mu.Unlock()
}

// watch pings, and waits until the session has been silent for too long or ctx
// ends. It counts rounds instead of measuring time, because a process that was
// suspended, or had no processor, could receive nothing meanwhile: a round that was
// late does not shorten the next one, and one in which the goroutines of this
// process had too few turns to receive an answer does not count (ADR 0071).
//
// A ping travels on the stream or, while the session has not accepted what was
// sent there, as a call of its own, which does not wait behind that. One call is
// in progress at a time; calls joins it. Nothing here takes the client's lock, for
// which thousands of goroutines of an application may wait.
func (l *link) watch(ctx context.Context, calls *sync.WaitGroup) error {
	round := time.NewTimer(l.ping / 2)
	defer round.Stop()
	var calling, turning atomic.Bool
	leaving, limit := l.leave, silentRounds
	for rounds, silent := 0, 0; silent < limit; {
		select {
		case <-l.received.C():
			silent = 0
			continue
		case <-leaving: // if the session does not end the stream in time, this does
			leaving, silent, limit = nil, 0, 1
			round.Reset(leaveLimit)
			continue
		case <-ctx.Done():
			return nil // the cause is set
		case <-round.C:
			round.Reset(l.ping / 2)
			if !turning.Load() {
				silent++
			}
			if silent > 1 && turning.CompareAndSwap(false, true) {
				calls.Go(func() {
					defer turning.Store(false)
					l.client.turns()
				})
			}
			if rounds++; rounds%2 == 1 {
				continue
			}
		}
		switch {
		case l.number == 0 || l.idle.Load():
			l.pings.Set()
		case calling.CompareAndSwap(false, true):
			calls.Go(func() {
				defer calling.Store(false)
				l.call(ctx)
			})
		}
	}
	return errSilent
}

// turns is how often goroutines of this process run one after the other until a
// ping is sent and its answer received, about.
const turns = 8

// takeTurns returns when the other goroutines that could run have run, so many
// times: at once, unless an application keeps its processors busy.
func takeTurns() {
	for range turns {
		runtime.Gosched()
	}
}

// call pings by a call of its own.
func (l *link) call(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, silentRounds*l.ping/2)
	defer cancel()
	_, err := l.client.peers.Client(l.address).Ping(ctx, connect.NewRequest(&wirev1.PingRequest{Client: l.client.id, Connection: l.number}))
	if err == nil {
		l.received.Set()
	}
}

// noteIdle records whether anything waits on the stream. The lock is held.
func (l *link) noteIdle() {
	l.idle.Store(l.windows.idle() && len(l.subscribes) == 0 && l.waiting.empty())
}

// end ends the request in order, as the client's last message to any session.
// With goodbye the session withdraws what it still has of this client.
func (l *link) end(goodbye bool) {
	l.client.mu.Lock()
	l.goodbye = goodbye
	l.client.mu.Unlock()
	close(l.leave)
}

// abort breaks the link off, as if the process had died.
func (l *link) abort() { l.cancel(errLeft) }

// queue queues the newest version of a publication. The lock is held.
func (l *link) queue(p *Publication) {
	if l.waiting.add(p, classOf(p, l.seq)) { // otherwise it is owed already
		l.owed[p] = true
		l.noteIdle()
		l.ready.Set()
	}
}

// runReceive handles the session's messages until the stream ends.
func (l *link) runReceive() error {
	for {
		m, err := l.stream.Receive()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return errLeft
			}
			return wire.FromConnect(err)
		}
		l.received.Set()
		if err := l.handle(m); err != nil {
			return err
		}
	}
}

// handle handles one message.
func (l *link) handle(m *wirev1.ServerMessage) error {
	c := l.client
	c.mu.Lock()
	defer c.mu.Unlock()
	defer l.noteIdle()
	opened, now := false, time.Now()
	for _, a := range m.GetAccepted() {
		if p := c.pubs[a.GetId()]; p != nil {
			p.acknowledge(a.GetVersion(), 0, nil)
			p.acceptedBy = l.seq
			l.over.accept(p, a.GetVersion())
			opened = l.windows.accept(p, a.GetVersion(), now) || opened
		}
	}
	if opened {
		l.ready.Set()
	}
	for _, a := range m.GetStored() {
		if p := c.pubs[a.GetId()]; p != nil {
			p.acknowledge(0, a.GetVersion(), nil)
			if a.GetVersion() >= p.version {
				l.dropOwed(p)
			}
		}
	}
	for _, r := range m.GetRefused() {
		if err := l.refused(r); err != nil {
			return err
		}
	}
	for _, push := range m.GetPushes() {
		for _, id := range push.GetSubscriptions() {
			if s := c.subs[id]; s != nil {
				l.pushed(s, push)
			}
		}
	}
	for _, r := range m.GetWithheld() { // of later lists than the pushes
		if s := c.subs[r.GetId()]; s != nil {
			l.withheld(s, wire.Errorf(wire.Code(r.GetCode()), "%s", r.GetMessage()))
		}
	}
	c.configured(m.GetConfig())
	if len(m.GetStored())+len(m.GetRefused()) > 0 {
		c.settled.Notify()
	}
	if len(m.GetSessions()) > 0 {
		c.advertised, c.former = m.GetSessions(), nil
	}
	if m.GetMove() != nil {
		select {
		case l.move <- m.GetMove():
		default:
		}
	}
	return nil
}

// dropOwed records that p needs no further acknowledgement of this session. The
// lock is held.
func (l *link) dropOwed(p *Publication) {
	delete(l.owed, p)
	l.waiting.remove(p)
	if l.windows.drop(p, time.Now()) {
		l.ready.Set()
	}
	if len(l.owed) == 0 {
		l.settled.Set()
	}
	l.noteIdle()
}

// refused handles a refusal. A refusal because this session cannot take clients
// now ends the link, since another session may take them. So does that of a token,
// since the next connection may have another one. What is over a limit is sent again
// later, and to the next session.
func (l *link) refused(r *wirev1.Refusal) error {
	c := l.client
	err := wire.Errorf(wire.Code(r.GetCode()), "%s", r.GetMessage())
	if err.Code == wire.CodeUnavailable || c.retries(err) {
		return err
	}
	switch p := c.pubs[r.GetId()]; {
	case p == nil:
	case !p.forget.IsZero(): // data has its withdrawal: nothing changes for the application
		l.dropOwed(p)
	case passes(err):
		l.overLimit(p, err)
	default:
		c.log.Error("publication refused", "dataId", p.data.DataID, "id", p.id, "error", err)
		p.acknowledge(0, 0, err)
	}
	if s := c.subs[r.GetId()]; s != nil {
		if passes(err) {
			l.subscriptionOverLimit(s, err)
			return nil
		}
		if s.list != nil && s.seen.Version > 0 { // higher than this cluster's versions can follow: start again
			s.list = nil
			l.subscribes = append(l.subscribes, s)
			l.ready.Set()
			return nil
		}
		c.log.Error("subscription refused", "dataId", s.data.DataID, "id", s.id, "error", err)
		s.err = err
		delete(c.subs, s.id)
	}
	return nil
}

// complete reports whether this session has all publications and subscriptions,
// and data has all publications.
func (l *link) complete() bool {
	l.client.mu.Lock()
	defer l.client.mu.Unlock()
	return len(l.owed) == 0 && len(l.subscribes) == 0
}

// hasOwed reports whether a publication is not known to be stored through this
// session.
func (l *link) hasOwed() bool {
	l.client.mu.Lock()
	defer l.client.mu.Unlock()
	return len(l.owed) > 0
}
