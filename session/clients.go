package session

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"conclave/internal/signal"
	"conclave/session/registry"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// clients holds the open connections of this session, and those that broke and
// whose lease still runs.
//
//	          hello                good-bye: withdrawn at once
//	(refused) <--+---> connected -----------------------------> removed
//	 starting,           |   ^
//	 draining     broken,|   | the client comes back, here or elsewhere: its new
//	              silent |   | connection owns what it sends again
//	                     v   |
//	                   broken ---- client lease expires,  -----> removed, with
//	                               or its end is confirmed       what it still owns
type clients struct {
	grace time.Duration // removals within it are counted together

	mu       sync.Mutex      // guards the rest
	refusing string          // why clients are refused; "" when they are taken
	own      map[string]bool // ids of the clients that were here when refusing became cutOff
	sessions []string        // addresses given to clients
	next     uint64
	open     map[*registry.Owner]*connection
	polls    map[*registry.Owner]*poll       // requests that wait for lists
	byNumber map[uint64]*connection          // the same
	broken   []broken                        // sorted by the end of their lease
	leased   map[*registry.Owner]*connection // registrants whose lease runs; they are in broken, too, where a renewal does not move them
	shorter  map[*connection]time.Time       // registrants whose lease was made shorter since expired, and its end
	removals []removal                       // those within the last grace
	empty    chan struct{}                   // closed when open is empty
	changed  signal.Signal                   // broken has grown
	ran      time.Duration                   // how long this process has run, not counting times in which it was suspended
	round    time.Time                       // when the leases were looked at last
	resumed  time.Time                       // when that was after a suspension
}

type broken struct {
	conn  *connection
	at    time.Time     // when it broke
	until time.Time     // end of its lease
	asked bool          // it left because it was asked to move
	left  bool          // it left in order, with a linger: the end of that is fixed
	seen  bool          // its end was seen: until is a span after it, and leases.confirm decides
	span  time.Duration // with seen: closeSpan, or the whole lease after renew
	again bool          // postpone has given it one more lease
	ran   time.Duration // clients.ran when it broke
}

// expected reports whether this end was expected, and is therefore no evidence
// of a fault.
func (b broken) expected() bool { return b.asked || b.conn.Announced }

// massSpan is the time within which a session notices that clients are gone that
// went at the same moment: it notices silence one lease after the last ping, and
// clients ping five times in a lease. A client that has only just broken off says
// nothing about one whose lease expires.
func massSpan(lease time.Duration) time.Duration { return lease / 4 }

// closeSpan is how long the registrations of a client stay whose connection was
// seen to be closed, if nothing else is lost: the time in which it connects again
// if a device between them has reset its connection, and sends its registrations.
func closeSpan(lease time.Duration, registrations int) time.Duration {
	return min(lease, massSpan(lease)+time.Duration(registrations)*replayTime)
}

// replayTime is the time that a replay takes for each registration, at most.
const replayTime = 50 * time.Microsecond

// removal is how many registrations of a client were removed.
type removal struct {
	at     time.Time
	client string
	count  int
}

func newClients(grace time.Duration) *clients {
	c := &clients{grace: grace, refusing: "starting", open: map[*registry.Owner]*connection{},
		byNumber: map[uint64]*connection{}, leased: map[*registry.Owner]*connection{}, shorter: map[*connection]time.Time{}, polls: map[*registry.Owner]*poll{}, round: time.Now(), empty: make(chan struct{}), changed: signal.New()}
	close(c.empty)
	return c
}

// admit adds a connection and sends the welcome on it, or returns why it is
// refused.
func (c *clients) admit(conn *connection, welcome *wirev1.Welcome) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.whyNot(conn.Client); err != nil {
		return err
	}
	c.enter()
	c.next++
	conn.Number = c.next
	c.open[conn.Owner], c.byNumber[conn.Number] = conn, conn
	welcome.Connection = conn.Number
	conn.out.add(func(o *registry.Outbox) { o.Welcome, o.Sessions = welcome, c.sessions })
	return nil
}

// refusal returns why a client is refused, or nil.
func (c *clients) refusal(client string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.whyNot(client)
}

// cutOff is why a session that is cut off (Server.isCutOff) refuses clients.
const cutOff = "it is cut off from most data nodes, or was removed from the member list"

// whyNot is refusal with the lock held. A session that is cut off takes back its
// own clients, which may find no other one, also those that only subscribe.
func (c *clients) whyNot(client string) error {
	if c.refusing == cutOff && c.own[client] {
		return nil
	}
	return c.whyClosed()
}

// whyClosed returns why no client is taken, or nil; mu is held. Clients that send requests
// can go to another session with each of them, so none is this session's own.
func (c *clients) whyClosed() error {
	if c.refusing == "" {
		return nil
	}
	return wire.Errorf(wire.CodeUnavailable, "this session takes no clients: %s", c.refusing)
}

// release removes a connection that has ended. The registrations that it leaves
// are kept for the client to come back until its lease ends; set changed if there
// are any. With left, its client ended the stream in order, so that an announced
// linger counts. The registry's lock is held.
func (c *clients) release(conn *connection, leaves int, left bool, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn.Owner)
	delete(c.byNumber, conn.Number)
	left = left && conn.Announced && !conn.asked
	if left {
		conn.Linger(now.Add(conn.linger))
	}
	c.leave()
	if leaves > 0 {
		b := broken{conn: conn, at: now, until: now.Add(conn.linger), asked: conn.asked, left: left, ran: c.ran}
		if b.seen = conn.closed && !b.expected(); b.seen {
			b.span = closeSpan(conn.linger, leaves)
			b.until = now.Add(b.span)
		}
		c.await(b)
	}
}

// await adds a connection whose lease has begun; mu is held.
func (c *clients) await(b broken) {
	at, _ := slices.BinarySearchFunc(c.broken, b, func(a, b broken) int { return cmp.Or(a.until.Compare(b.until), -1) })
	c.broken = slices.Insert(c.broken, at, b)
}

// enter is called before a client or a request is added, and leave after it was removed;
// mu is held.
func (c *clients) enter() {
	if len(c.open)+len(c.polls) == 0 {
		c.empty = make(chan struct{})
	}
}

func (c *clients) leave() {
	if len(c.open)+len(c.polls) == 0 {
		close(c.empty)
	}
}

// find returns the open connection of a client with that number, or nil.
func (c *clients) find(client string, number uint64) *connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn := c.byNumber[number]; conn != nil && conn.Client == client {
		return conn
	}
	return nil
}

// has reports whether a client is connected.
func (c *clients) has(client string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		if conn.Client == client {
			return true
		}
	}
	return false
}

// push gives pushes to the outboxes of their clients. The registry's lock is
// held, so that a newer push never comes before an older one.
func (c *clients) push(pushes []registry.Push) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range pushes {
		if conn := c.open[p.To]; conn != nil {
			conn.out.add(func(o *registry.Outbox) { o.Push(p) })
		} else if request := c.polls[p.To]; request != nil {
			request.give(p)
		}
	}
}

// stored gives acknowledgements to the owners of stored registrations.
func (c *clients) stored(acks []registry.Ack) {
	for len(acks) > 0 {
		to, n := acks[0].To, 1
		for n < len(acks) && acks[n].To == to {
			n++
		}
		c.answer(to, acks[:n], nil)
		acks = acks[n:]
	}
}

// refused reports to an owner that data refuses a registration.
func (c *clients) refused(to *registry.Owner, refusal *wirev1.Refusal) {
	c.answer(to, nil, []*wirev1.Refusal{refusal})
}

func (c *clients) answer(to *registry.Owner, stored []registry.Ack, refused []*wirev1.Refusal) {
	c.mu.Lock()
	conn, leased := c.open[to], c.leased[to]
	c.mu.Unlock()
	if leased != nil {
		leased.answered.Notify()
	}
	if conn != nil {
		conn.out.add(func(o *registry.Outbox) { o.Answer(nil, stored, refused) })
		conn.settled.Set()
	}
}

// refuse makes admit refuse new clients for the given reason; "" admits them
// again.
func (c *clients) refuse(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if why == c.refusing {
		return
	}
	c.refusing, c.own = why, map[string]bool{}
	if why != cutOff {
		return
	}
	for _, conn := range c.open {
		c.own[conn.Client] = true
	}
	for _, b := range c.broken {
		c.own[b.conn.Client] = true
	}
}

// askToMove asks every connected client to go to another session.
func (c *clients) askToMove(reason string) (asked int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endPolls()
	for _, conn := range inOrder(c.open) {
		conn.asked = true
		conn.out.add(func(o *registry.Outbox) { o.Move, o.MoveTo = reason, "" })
	}
	return len(c.open)
}

// askOneToMove asks one client to go to the session at an address, and reports
// whether it was still connected. The others stay.
func (c *clients) askOneToMove(conn *connection, reason, to string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusing != "" && c.refusing != cutOff || c.open[conn.Owner] != conn {
		return false
	}
	conn.asked = true
	conn.out.add(func(o *registry.Outbox) { o.Move, o.MoveTo = reason, to })
	return true
}

// stays records that a client that askOneToMove has asked is no longer expected to
// go: if it is gone later, that is evidence of a fault again.
func (c *clients) stays(conn *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn.asked = false
}

// advertise sends every client the addresses of the sessions that take clients.
func (c *clients) advertise(sessions []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Equal(c.sessions, sessions) {
		return
	}
	c.sessions = sessions
	for _, conn := range inOrder(c.open) {
		conn.out.add(func(o *registry.Outbox) { o.Sessions = sessions })
	}
}

// addresses returns the addresses of the sessions that take clients.
func (c *clients) addresses() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string{}, c.sessions...)
}

// none returns a channel that is closed when no client is connected, and no request waits.
func (c *clients) none() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.empty
}

func (c *clients) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// expired removes and returns the broken connections whose lease has expired,
// and returns the end of the next lease.
func (c *clients) expired(now time.Time) (expired []broken, next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.shorter) > 0 {
		for i, b := range c.broken {
			if until, shorter := c.shorter[b.conn]; shorter {
				c.broken[i].until = until
			}
		}
		clear(c.shorter)
		c.sortBroken()
	}
	n := 0
	for n < len(c.broken) && !c.broken[n].until.After(now) {
		n++
	}
	expired, c.broken = slices.Clone(c.broken[:n]), c.broken[n:]
	expired = c.withoutRenewed(expired, now)
	if len(c.broken) > 0 {
		next = c.broken[0].until
	}
	return expired, next
}

// restore puts back connections that expired has returned.
func (c *clients) restore(expired []broken) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = append(expired, c.broken...) // their leases end before all others'
}

// postpone puts back, with one more lease, those of the connections that expired
// has returned whose end was not expected, and returns the rest: a connection is
// put back once.
func (c *clients) postpone(expired []broken, now time.Time) (due []broken) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range expired {
		if b.expected() || b.seen || b.again {
			due = append(due, b)
			continue
		}
		b.again, b.until = true, now.Add(b.conn.linger)
		c.broken = append(c.broken, b)
	}
	c.sortBroken()
	return due
}

// awaitLease puts back connections that expired has returned, and whose ends were seen,
// for the rest of their leases.
func (c *clients) awaitLease(seen []broken) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range seen {
		b.seen, b.until = false, b.until.Add(b.conn.linger-b.span)
		c.broken = append(c.broken, b)
	}
	c.sortBroken()
}

// sortBroken restores the order of broken; mu is held.
func (c *clients) sortBroken() {
	slices.SortStableFunc(c.broken, func(a, b broken) int { return a.until.Compare(b.until) })
}

// addRunTime records that the process has run for a while, and that it was late:
// the leases of the broken connections end as much later, except lingers.
func (c *clients) addRunTime(ran, late time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ran, c.round = c.ran+ran, time.Now()
	if late == 0 {
		return
	}
	for i, b := range c.broken {
		if !b.left {
			c.broken[i].until = b.until.Add(late)
		}
	}
	c.sortBroken()
}

// renewedFor limits how often the lease of a broken connection starts again:
// until this process has run for renewedFor leases since the connection broke.
// Without the limit a session that is suspended again and again would keep the
// registrations of dead clients for ever.
const renewedFor = 3

// renew starts the leases of the broken connections again, except those that have
// reached renewedFor, and lingers: their clients do not come back. One that announced
// a linger but broke off may, and has the client lease for that, as any other.
func (c *clients) renew(now time.Time, lease time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.round, c.resumed = time.Now(), time.Now()
	for i, b := range c.broken {
		had, span := c.ran-b.ran, min(b.conn.linger, lease)
		if until := now.Add(span); !b.left && had < renewedFor*span && until.After(b.until) {
			c.broken[i].until, c.broken[i].span = until, span
		}
	}
	c.sortBroken()
}

// waiting returns the broken connections whose lease still runs, except those
// whose end was expected, and registrants that are not late.
func (c *clients) waiting() (out []broken) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.broken {
		if b.conn.leased {
			b.at, b.asked = b.conn.LastPing(), b.asked || b.conn.asked
			b.until = later(b.until, b.at.Add(b.conn.linger))
		}
		if !b.expected() && !(b.conn.leased && time.Since(b.at) < late(b.conn.linger)) {
			out = append(out, b)
		}
	}
	return out
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// removed records that registrations of a client were removed.
func (c *clients) removed(client string, count int, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removals = append(c.removals, removal{now, client, count})
}

// removedLately adds to lost how many registrations of each client were removed
// within the last grace.
func (c *clients) removedLately(lost map[string]int, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removals = slices.DeleteFunc(c.removals, func(r removal) bool { return now.Sub(r.at) > c.grace })
	for _, r := range c.removals {
		lost[r.client] += r.count
	}
}

// snapshot returns the open connections in the order in which they were
// admitted. They are sorted without the lock, on which pushes wait.
func (c *clients) snapshot() []*connection {
	c.mu.Lock()
	open := maps.Clone(c.open)
	c.mu.Unlock()
	return inOrder(open)
}

// inOrder returns connections in the order in which they were admitted.
func inOrder(open map[*registry.Owner]*connection) []*connection {
	return slices.SortedFunc(maps.Values(open), func(a, b *connection) int { return cmp.Compare(a.Number, b.Number) })
}

// The leases of registrants (registrants.go) are among those of the broken connections.

// renewals is how often one is to be renewed while it runs.
const renewals = 3

// late returns after which time without a request the client of a registrant counts as
// lost: it has missed one at least.
func late(ttl time.Duration) time.Duration { return ttl * (renewals - 1) / renewals }

// lease adds a registrant whose lease begins. The registry's lock is held.
func (c *clients) lease(conn *connection, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leased[conn.Owner] = conn
	c.await(broken{conn: conn, at: now, until: now.Add(conn.linger), ran: c.ran})
}

// renewLease renews the lease of a registrant, with this time to live (0: it stays), and
// returns it. It returns nil if the lease has ended: then its client comes back as another
// one, like a client on another connection. The registry's lock is held.
func (c *clients) renewLease(owner *registry.Owner, ttl time.Duration, now time.Time) *connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn := c.leased[owner]
	if conn == nil || now.Sub(conn.LastPing()) >= conn.linger || !conn.Renew(now, conn.linger) {
		return nil
	}
	conn.asked = false
	if before := conn.linger; ttl > 0 {
		if conn.linger = ttl; ttl < before { // its end would be noticed late
			c.shorter[conn] = now.Add(ttl)
		}
	}
	return conn
}

// keep renews the leases of registrants whose time to live is longer, so that they end with
// it. Their clients have sent nothing: one that was asked to move may have gone. The
// registry's lock is held.
func (c *clients) keep(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.leased {
		if last := conn.until.Add(-conn.linger); last.After(conn.LastPing()) {
			conn.Renew(now.Add(min(0, last.Sub(now))), conn.linger)
		}
	}
}

// hidden records which registrations other versions hide, as data has answered. The
// registry's lock is held.
func (c *clients) hidden(r *registry.Registry, by []*wirev1.Hidden) {
	for _, h := range by {
		p, owner, _ := r.Find(h.GetId())
		if conn := c.leasedBy(owner); conn != nil && isHidden(p, h.GetVersion()) {
			conn.hiddenBy = h.GetVersion()
		}
	}
}

// isHidden reports whether a registration has no effect beside this version of it.
func isHidden(p *wirev1.Publisher, by int64) bool {
	return by > p.GetVersion() || p.GetWithdrawn() && by == p.GetVersion()
}

// leasedBy returns the registrant that is the owner, or nil.
func (c *clients) leasedBy(owner *registry.Owner) *connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leased[owner]
}

// expectEnd records that the client of a registrant was sent to another session, so that
// its end is no evidence of a fault.
func (c *clients) expectEnd(owner *registry.Owner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn := c.leased[owner]; conn != nil {
		conn.asked = true
	}
}

// refuseRequest returns why requests for registrations are not taken, or nil, and whether
// their clients are to go to another session.
func (c *clients) refuseRequest() (moves bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err = c.whySuspended(); err == nil {
		err = c.whyClosed()
		moves = err != nil
	}
	return moves, err
}

// suspended returns why nothing is taken that may have waited in this process's buffers, or
// nil: for a while after a suspension it may be older than what its client has sent to
// another session.
func (c *clients) suspended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.whySuspended()
}

// whySuspended is suspended with the lock held. The round of the leases may run before or
// after what waited is read.
func (c *clients) whySuspended() error {
	if time.Since(c.round) > stalled || time.Since(c.resumed) < stalled {
		return wire.Errorf(wire.CodeUnavailable, "this session was suspended: send the request again")
	}
	return nil
}

// leasedRound is by how much later the end of a renewed lease may be noticed, so that
// thousands of registrants do not make as many rounds.
const leasedRound = 50 * time.Millisecond

// withoutRenewed puts the registrants among the connections whose lease has expired back
// that were renewed meanwhile, and returns the others; mu is held.
func (c *clients) withoutRenewed(expired []broken, now time.Time) (out []broken) {
	defer func() {
		if len(out) < len(expired) {
			c.sortBroken()
		}
	}()
	for _, b := range expired {
		if !b.conn.leased {
			out = append(out, b)
			continue
		}
		last := b.conn.LastPing()
		if until := last.Add(b.conn.linger); c.leased[b.conn.Owner] != nil && until.After(now) {
			c.broken = append(c.broken, broken{conn: b.conn, at: last, until: until.Truncate(leasedRound).Add(leasedRound), ran: c.ran})
			continue
		}
		delete(c.leased, b.conn.Owner)
		b.asked = b.conn.asked
		out = append(out, b)
	}
	return out
}

// addPoll adds a request that waits for lists, or returns why it is refused.
func (c *clients) addPoll(p *poll) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.whyClosed(); err != nil {
		return err
	}
	c.enter()
	c.polls[p.Owner] = p
	return nil
}

func (c *clients) removePoll(p *poll) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.polls, p.Owner)
	c.leave()
}

// moveRequests ends all requests that wait for lists: their clients go to another session.
func (c *clients) moveRequests() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endPolls()
}

// endPolls ends all requests that wait for lists; mu is held.
func (c *clients) endPolls() {
	inOrder := slices.SortedFunc(maps.Values(c.polls), func(a, b *poll) int { return cmp.Compare(a.number, b.number) })
	for _, p := range inOrder {
		if !p.ended() {
			close(p.end)
		}
	}
}
