package registry

import (
	"cmp"
	"sync/atomic"
	"time"

	"conclave/wire/list"
)

// Owner is one connection of a client. It owns the registrations that were last
// sent on it, and it has subscriptions.
//
// Its freshness limits how long its registrations may be published after the
// client's last ping. Those of an owner that is not fresh are held back: data is sent
// neither the registration nor its removal, until it is sent again on a connection
// that is fresh, or a client lease after the end of the connection was noticed, when
// it is removed.
//
// The reason: a client that moves to another session may change and withdraw
// there what it registered here. The tombstone is kept for the session grace,
// and on data nodes for as long as it hides anything. A session that was
// suspended or cut off for longer finds that data has removed its copies (as
// those of a lost session) and the tombstones as well. If it published its copy
// again, the withdrawn registration would become visible again.
//
// The client's last ping must therefore be younger than a tombstone can be old:
// two thirds of the grace; the last third allows for messages in flight.
// This is checked at the moment of publishing. The timers that end leases
// cannot do it: in a process that was suspended they fire late, in any order
// with the requests that waited meanwhile. For the same reason a ping that
// arrives after the lease has expired does not count: it may have waited in the
// kernel's buffers.
//
// A registration is never removed sooner than its lease allows: the client may
// have found no other session, and be on its way back.
type Owner struct {
	Client    string // the client's id, random per process
	Name      string // as operators are shown
	Protocol  string // with its version, as NAME/VERSION
	Identity  string // of the client's token; "" in a cluster without tokens
	Address   string // from which the client is or was connected
	Host      string // of the address: those with the same share a limit
	Number    uint64 // counts the connections of this session
	Announced bool   // the client asked for a linger itself: its end is intended
	Deltas    bool   // the client can apply deltas
	Parts     bool   // the client can put lists together
	Foreign   bool   // of another protocol: an id of a registration is that of one client, whatever Client is, and what lists the client has is not known
	Takes     int    // bytes that it takes itself, about: charged to it until it has ended

	last     atomic.Pointer[time.Time] // when the last ping of the client arrived; not guarded by the registry's lock
	until    time.Time                 // of a client that has left as it had announced: the end of its linger
	ended    bool                      // the connection has ended
	regs     set
	live     int // of regs: those that are not tombstones
	unstored int // of regs: those that data has not stored
	subs     map[string]*subscription
	bytes    int      // of regs and subs, about
	account  *account // of its host; nil until it holds something
}

// FreshFor returns how long a ping keeps its connection fresh: two thirds of
// the session grace.
func FreshFor(grace time.Duration) time.Duration { return grace * 2 / 3 }

// Renew records a ping of the client. It reports false, and records nothing, if
// the time since the ping before it is longer than silence. Unlike all else it
// needs no lock, so that no ping waits behind registrations. Calls for one owner
// may overlap.
//
// A message with registrations is no ping: it may have waited in this process
// while its client, whose pings do not wait, has moved on.
func (o *Owner) Renew(now time.Time, silence time.Duration) bool {
	if last := o.last.Load(); last != nil && now.Sub(*last) > silence {
		return false
	}
	o.last.Store(&now)
	return true
}

// LastPing returns when the last ping of the client arrived.
func (o *Owner) LastPing() time.Time { return *o.last.Load() }

// count adds a registration to the numbers of those that o owns, or, with -1,
// removes it.
func (o *Owner) count(reg *registration, n int) {
	if !reg.withdrawn {
		o.live += n
	}
	if reg.stored.IsZero() {
		o.unstored += n
	}
}

// Linger records that the client has sent its last message, the orderly end of
// its request: it uses no other session before until.
func (o *Owner) Linger(until time.Time) { o.until = until }

// HasLeft reports whether the client has left as it had announced, so that what it
// registered counts as withdrawn from the end of its linger on.
func (o *Owner) HasLeft() bool { return !o.until.IsZero() }

// Departed reports whether the linger of a client that has left as it had announced
// has not ended.
func (o *Owner) Departed(now time.Time) bool { return now.Before(o.until) }

// End records that the connection has ended.
func (o *Owner) End() {
	if o.account != nil && !o.ended {
		o.account.open--
		o.charge(-o.Takes)
	}
	o.ended = true
}

// fresh reports whether the registrations of the connection may be published.
func (o *Owner) fresh(now time.Time, grace time.Duration) bool {
	last := o.last.Load()
	return last != nil && now.Sub(*last) < FreshFor(grace) || o.Departed(now)
}

// after returns the owner of a registration that belongs to o, or to no
// connection if o is nil, and is sent again by sender: the last sender, except
// that of two connections of the same client the later one stays the owner.
// Messages of the earlier one that were still buffered when it broke must not
// take the registration back, because its lease would then end what the client
// holds through its new connection. That a connection is of the same client does not
// follow from Client in every protocol, but then from the id of the registration.
func (o *Owner) after(sender *Owner) *Owner {
	same := o != nil && (o.Client == sender.Client || o.Foreign && sender.Foreign)
	if same && o.Number > sender.Number && !o.ended {
		return o
	}
	return sender
}

// Limits bound what clients may hold here, in entries and in bytes: of each
// connection, and of all connections from one address together. What would exceed
// one is refused; all that is held already stays. A field that is zero is no limit.
//
// Withdrawals, and changes of what is held, may use twice as much: one that is refused
// would leave an older registration visible, or end what a subscription has.
type Limits struct {
	Subscriptions int // of a connection
	Registrations int // of a connection
	Bytes         int // of a connection: registrations and subscriptions, as they are in memory, about
	AddressBytes  int // of all connections from one address, those included that have ended and left registrations
	ListBytes     int // of a list that is pushed; 0: list.MaxBytes
}

// maxList returns the bytes of the largest list that is pushed.
func (l Limits) maxList() int { return cmp.Or(l.ListBytes, list.MaxBytes) }

// account is what the connections from one address hold.
type account struct {
	bytes int
	open  int // connections that are charged to it and have not ended
}

// charge adds bytes to what the connection and its address hold.
func (o *Owner) charge(bytes int) {
	o.bytes += bytes
	if o.account != nil {
		o.account.bytes += bytes
	}
}
