package session

import (
	"slices"
	"time"

	"conclave"
	"conclave/internal/sleep"
	"conclave/session/registry"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// callLimit limits one Write or Fetch. It is longer than the three seconds after
// which the transport drops a silent connection: a call that takes longer is
// dead, and its slots have moved long before.
const callLimit = 4 * time.Second

// receivers are the clients of this session, as the loops of the data nodes know them.
type receivers interface {
	push([]registry.Push)
	stored([]registry.Ack)
	refused(to *registry.Owner, refusal *wirev1.Refusal)
}

// calls is what the loops of the data nodes share.
type calls struct {
	config   Config
	registry *locked
	clients  receivers
	nodes    *nodes
	data     func(address string) wirev1connect.DataServiceClient
}

// refused records that a node did not serve a slot at an epoch. If it reports a
// newer epoch that it leads at, that is adopted and tried at once; otherwise the
// slot pauses until the pause ends or the routes change.
func (c *calls) refused(n *dataNode, slot int, epoch conclave.Epoch, access wirev1.Access, theirs conclave.Epoch, p *backoff, now time.Time) {
	if access == wirev1.Access_ACCESS_MISMATCH && epoch.Less(theirs) {
		var changed bool
		c.registry.do(func(r *registry.Registry) { changed, _ = r.Adopt(slot, theirs, n.address, now) })
		if changed {
			c.nodes.reroute()
			return
		}
	}
	p.failed(slot, now)
}

// backoff delays retries per slot after a data node refused it: 1, 2, 4 ms and
// so on, up to maxPause, until the routes change. It belongs to one loop.
type backoff struct {
	jitter   func() float64 // returns 0 to 1
	slots    map[int]*pause
	rerouted uint64
}

type pause struct {
	wait  time.Duration
	until time.Time
}

const maxPause = 50 * time.Millisecond

func newBackoff(jitter func() float64) *backoff {
	return &backoff{jitter: jitter, slots: map[int]*pause{}}
}

// reset ends all pauses if the routes have changed since the last call.
func (p *backoff) reset(rerouted uint64) {
	if p.rerouted != rerouted {
		p.rerouted = rerouted
		clear(p.slots)
	}
}

// until returns when the slot may be tried again; zero means now.
func (p *backoff) until(slot int, now time.Time) time.Time {
	if w := p.slots[slot]; w != nil && w.until.After(now) {
		return w.until
	}
	return time.Time{}
}

func (p *backoff) failed(slot int, now time.Time) {
	w := p.slots[slot]
	if w == nil {
		w = &pause{}
		p.slots[slot] = w
	}
	w.wait = sleep.Longer(w.wait, time.Millisecond, maxPause)
	w.until = now.Add(w.wait - time.Duration(p.jitter()*float64(w.wait)/4))
}

func (p *backoff) succeeded(slot int) { delete(p.slots, slot) }

// earlier returns the earlier of two times, of which the zero time means none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// rotate makes a sorted list of slots begin after the last one served, so that
// no slot waits for ever behind a busy one.
func rotate(slots []int, after int) []int {
	at, _ := slices.BinarySearch(slots, after+1)
	return append(slots[at:len(slots):len(slots)], slots[:at]...)
}
