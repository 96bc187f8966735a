package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"connectrpc.com/connect"

	"conclave"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// link is one connection to one session: a stream, on which everything that is
// wished is told from the beginning, since this session knows nothing of it.
type link struct {
	client  *Client
	address string
	stream  *connect.BidiStreamForClient[wirev1.ClientMessage, wirev1.ServerMessage]
	wake    chan struct{} // one token: there is something to send
	move    chan string   // one token: the session asks to move, and why
	settled chan struct{} // one token: owed may have become empty
	heard   chan struct{} // one token: the session spoke
	leave   chan struct{} // closed by end: say the last word
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed when the stream is over and both loops have returned
	err     error         // why; read after done

	session conclave.NodeID // set before the link is used
	ping    time.Duration

	// Guarded by client.mu.
	queued       map[*Publication]bool // waits to be sent; false: it was sent already
	order        []*Publication        // the queued ones, oldest first
	owed         map[*Publication]bool // this session has not said of it that data has it
	subscribes   []*Subscription
	unsubscribes []string
	goodbye      bool
}

// Limits of one message, and of how long things may take.
const (
	messageBytes         = 512 << 10
	messagePublications  = 4096
	messageSubscriptions = 4096
	welcomeLimit         = 2 * time.Second
	leaveLimit           = time.Second
)

var (
	errSilent = errors.New("the session was silent for two pings")
	errLeft   = errors.New("left")
)

// dial opens a link and waits until the session has welcomed it. Everything that
// is wished is queued on it, and it is one of the client's links from then on,
// until its done is closed; ctx bounds the dialling only.
func (c *Client) dial(ctx context.Context, address string) (*link, error) {
	asked := ctx
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(asked))
	hurry := context.AfterFunc(asked, func() { cancel(context.Cause(asked)) })
	l := &link{
		client: c, address: address, cancel: cancel, wake: make(chan struct{}, 1), move: make(chan string, 1), settled: make(chan struct{}, 1),
		heard: make(chan struct{}, 1), leave: make(chan struct{}), done: make(chan struct{}),
		queued: map[*Publication]bool{}, owed: map[*Publication]bool{},
	}
	late := time.AfterFunc(welcomeLimit, func() { cancel(errSilent) })
	l.stream = c.peers.Client(address).Connect(ctx)
	// net/http notices the end of the context only when it is not waiting for more
	// of the request's body. As a last word this means nothing: nothing was registered.
	abort := context.AfterFunc(ctx, func() { _ = l.stream.CloseRequest() })
	welcome, err := l.hello()
	abort() // before anything is registered: from here on only run ends the link
	hurry()
	late.Stop()
	if err != nil {
		cancel(nil)
		_ = l.stream.CloseRequest()
		if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
			err = cause
		}
		return nil, fmt.Errorf("connect to %s: %w", address, wire.FromConnect(err))
	}
	l.session = wire.NodeIn(welcome.GetWelcome().GetSession())
	l.ping = max(wire.FromMs(welcome.GetWelcome().GetClientLeaseMs())/5, 50*time.Millisecond)

	c.mu.Lock()
	c.remember = wire.FromMs(welcome.GetWelcome().GetRememberMs())
	for _, p := range c.sorted() {
		l.queue(p)
	}
	l.subscribes = c.sortedSubs()
	c.links = append(c.links, l)
	c.mu.Unlock()
	if err := l.take(welcome); err != nil { // it refused before it was asked for anything
		cancel(err)
	}
	wake(l.settled)
	c.background.Go(func() { l.run(ctx) })
	return l, nil
}

// hello is the first exchange.
func (l *link) hello() (*wirev1.ServerMessage, error) {
	err := l.stream.Send(&wirev1.ClientMessage{Hello: &wirev1.ClientHello{
		Client: l.client.id, Name: l.client.config.Name, LingerMs: wire.Ms(l.client.config.Linger),
	}})
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	m, err := l.stream.Receive() // also says why a Send met the end
	if err == nil && m.GetWelcome() == nil {
		err = errors.New("the first answer is no welcome")
	}
	return m, err
}

// run sends and receives until the stream is over: a sender, a receiver, and
// this one, which watches for silence. However it comes to its end, the request
// is only broken off: its end in order is the client's last word, see runSend.
func (l *link) run(ctx context.Context) {
	defer close(l.done)
	var both sync.WaitGroup
	both.Go(func() { l.runSend(ctx) })
	both.Go(func() { l.cancel(l.runReceive()) })
	silence := time.NewTimer(2*l.ping + l.ping/2)
	leaving := l.leave
	for ctx.Err() == nil {
		select {
		case <-l.heard:
			silence.Reset(2*l.ping + l.ping/2)
		case <-silence.C:
			l.cancel(errSilent)
		case <-leaving:
			leaving = nil
			silence.Reset(leaveLimit) // the session ends the stream, or this does
		case <-ctx.Done():
		}
	}
	silence.Stop()
	_ = l.stream.CloseResponse() // breaks off what still runs, and unblocks both
	both.Wait()
	l.err = context.Cause(ctx)

	c := l.client
	c.mu.Lock()
	for i, other := range c.links {
		if other == l {
			c.links = append(c.links[:i:i], c.links[i+1:]...)
			break
		}
	}
	c.mu.Unlock()
}

// end says the client's last word: it speaks to no other session either. With
// goodbye the session withdraws what it still has of this client.
func (l *link) end(goodbye bool) {
	l.client.mu.Lock()
	l.goodbye = goodbye
	l.client.mu.Unlock()
	close(l.leave)
}

// cut breaks the link off, as the end of the process would.
func (l *link) cut() { l.cancel(errLeft) }

// queue puts a publication's newest version in line. The lock is held.
func (l *link) queue(p *Publication) {
	l.owed[p] = true
	if !l.queued[p] {
		l.queued[p] = true
		l.order = append(l.order, p)
	}
}

// runSend sends what is queued, in messages of many, and pings. It closes the
// request only when the client leaves: a session takes the end of the request for
// the client's last word, and vouches for what a client with a linger leaves. One
// that goes elsewhere may change and withdraw there what it registered here.
func (l *link) runSend(ctx context.Context) {
	pings := uint64(0)
	ticker := time.NewTicker(l.ping)
	defer ticker.Stop()
	for {
		for m := l.next(); m != nil; m = l.next() {
			if l.stream.Send(m) != nil {
				return // the receiver hears why
			}
		}
		wake(l.settled)
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case now := <-ticker.C:
			l.client.forget(now)
			pings++
			if l.stream.Send(&wirev1.ClientMessage{Ping: pings}) != nil {
				return
			}
		case <-l.leave:
			l.client.mu.Lock()
			goodbye := l.goodbye
			l.client.mu.Unlock()
			if goodbye {
				_ = l.stream.Send(&wirev1.ClientMessage{Goodbye: true}) // if it fails the stream is over anyway
			}
			_ = l.stream.CloseRequest() // so does this
			return
		}
	}
}

// next makes the next message; nil when nothing is queued.
func (l *link) next() *wirev1.ClientMessage {
	l.client.mu.Lock()
	defer l.client.mu.Unlock()
	if len(l.order)+len(l.subscribes)+len(l.unsubscribes) == 0 {
		return nil
	}
	m := &wirev1.ClientMessage{}
	size, taken := 0, 0
	for _, p := range l.order {
		if taken >= messagePublications || size > messageBytes {
			break
		}
		taken++
		if l.client.pubs[p.id] != p { // nothing of it is told any more
			delete(l.queued, p)
			continue
		}
		l.queued[p] = false
		m.Publishers = append(m.Publishers, p.message())
		size += 64 + len(p.key)
		for _, v := range p.values {
			size += 4 + len(v)
		}
	}
	if l.order = l.order[taken:]; len(l.order) == 0 {
		l.order = nil
	}
	n := min(len(l.subscribes), messageSubscriptions)
	for _, s := range l.subscribes[:n] {
		if !s.closed {
			m.Subscribe = append(m.Subscribe, s.message())
		}
	}
	l.subscribes = l.subscribes[n:]
	m.Unsubscribe, l.unsubscribes = l.unsubscribes, nil
	return m
}

// runReceive takes what the session says until the stream ends.
func (l *link) runReceive() error {
	for {
		m, err := l.stream.Receive()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return errLeft
			}
			return wire.FromConnect(err)
		}
		wake(l.heard)
		if err := l.take(m); err != nil {
			return err
		}
	}
}

// take notes what one message says.
func (l *link) take(m *wirev1.ServerMessage) error {
	c := l.client
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range m.GetAccepted() {
		if p := c.pubs[a.GetId()]; p != nil {
			p.progress(a.GetVersion(), 0, nil)
		}
	}
	for _, a := range m.GetStored() {
		if p := c.pubs[a.GetId()]; p != nil {
			p.progress(0, a.GetVersion(), nil)
			if a.GetVersion() >= p.version {
				l.settle(p)
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
				s.pushed(push.GetDatum(), push.GetHash(), wire.FromMs(push.GetUnconfirmedMs()))
			}
		}
	}
	if len(m.GetStored())+len(m.GetRefused()) > 0 {
		c.noteIdle()
	}
	if len(m.GetSessions()) > 0 {
		c.told = m.GetSessions()
	}
	if m.GetMove() != nil {
		select {
		case l.move <- m.GetMove().GetReason():
		default:
		}
	}
	return nil
}

// settle notes that this session owes no answer about p. The lock is held.
func (l *link) settle(p *Publication) {
	delete(l.owed, p)
	delete(l.queued, p)
	if len(l.owed) == 0 {
		wake(l.settled)
	}
}

// refused notes a refusal. One that only this session makes just now ends the
// link: another may take what is wished.
func (l *link) refused(r *wirev1.Refusal) error {
	c := l.client
	err := wire.Errorf(wire.Code(r.GetCode()), "%s", r.GetMessage())
	if err.Code == wire.CodeUnavailable {
		return err
	}
	switch p := c.pubs[r.GetId()]; {
	case p == nil:
	case !p.forget.IsZero(): // data has it: no news for the application
		l.settle(p)
	default:
		c.log.Error("publication refused", "dataId", p.data.DataID, "id", p.id, "error", err)
		p.progress(0, 0, err)
	}
	if s := c.subs[r.GetId()]; s != nil {
		if s.seen.Version > 0 { // more than this cluster can count on from: start again
			s.seen.Version, s.hash = 0, 0
			l.subscribes = append(l.subscribes, s)
			wake(l.wake)
			return nil
		}
		c.log.Error("subscription refused", "dataId", s.data.DataID, "id", s.id, "error", err)
		s.err = err
		delete(c.subs, s.id)
	}
	return nil
}

// told says that this session, and through it data, has all that is wished.
func (l *link) told() bool {
	l.client.mu.Lock()
	defer l.client.mu.Unlock()
	return len(l.owed) == 0 && len(l.subscribes) == 0
}

// owes says that data may not have all that is wished through this session.
func (l *link) owes() bool {
	l.client.mu.Lock()
	defer l.client.mu.Unlock()
	return len(l.owed) > 0
}
