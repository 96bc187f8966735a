package session

import (
	"context"
	"sync"
	"time"

	"connectrpc.com/connect"

	"conclave/internal/trace"
	"conclave/session/registry"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

var _ wirev1connect.SessionServiceHandler = (*sessionService)(nil)

// sessionService implements the service of session.proto.
type sessionService struct {
	config   Config
	registry *locked
	reroute  func() // is called when an epoch was adopted
}

// Diff answers a data node that compares its copies with this session's set, and
// is a fence: see registry.Registry.Diff. Without the fence a session could
// publish to the old leader and read it there after the new leader had its
// answer; the next read, at the new leader, would go back in time.
func (d *sessionService) Diff(_ context.Context, req *connect.Request[wirev1.DiffRequest]) (*connect.Response[wirev1.DiffResponse], error) {
	m := req.Msg
	me := wire.NodeOut(d.config.Node)
	if wire.NodeIn(m.GetSession()) != d.config.Node {
		// Another incarnation has another set: the answer names this one and is empty.
		return connect.NewResponse(&wirev1.DiffResponse{Session: me}), nil
	}
	res, err := d.diff(m, false)
	if err != nil {
		return nil, err
	}
	res.Session = me
	for _, also := range m.GetAlso()[:min(len(m.GetAlso()), slot.MaxSlots)] {
		answer, _ := d.diff(&wirev1.DiffRequest{ // an error comes again when the asker asks for this slot alone
			Asker: m.Asker, AskerAddress: m.AskerAddress, Session: m.Session,
			Slot: also.GetSlot(), LeaderEpoch: also.GetLeaderEpoch(), Count: also.GetCount(), Digest: also.GetDigest(),
		}, true)
		res.Also = append(res.Also, &wirev1.DiffedSlot{Same: answer.GetSame(), HighestPushed: answer.GetHighestPushed()})
	}
	return connect.NewResponse(res), nil
}

// diff compares one slot, or only its digest.
func (d *sessionService) diff(m *wirev1.DiffRequest, digest bool) (res *wirev1.DiffResponse, err error) {
	if m.GetSlot() >= slot.MaxSlots {
		return nil, wire.Errorf(wire.CodeBadRequest, "slot %d: there are %d at most", m.GetSlot(), slot.MaxSlots)
	}
	epoch := wire.EpochIn(m.GetLeaderEpoch())
	d.config.Trace.Claim(trace.Claim{Kind: trace.Answering, Slot: int(m.GetSlot()), Epoch: epoch, Peer: wire.NodeIn(m.GetAsker())})
	var adopted bool
	d.registry.do(func(r *registry.Registry) { res, adopted, err = r.Diff(m, digest, time.Now()) })
	if adopted {
		d.config.Logger.Debug("fenced by a diff", "slot", m.GetSlot(), "epoch", epoch.String(), "asker", m.GetAsker().GetName())
		d.reroute()
	}
	return res, err
}

// locked is the registry with its lock. Under the lock only memory is touched:
// the locks of the clients and of their outboxes may be taken inside it, so that
// pushes are given to an outbox in the order in which they were decided.
type locked struct {
	mu sync.Mutex // guards the registry
	*registry.Registry
}

// do calls f under the lock, which a panic of f releases: net/http survives the
// panic of a request.
func (l *locked) do(f func(*registry.Registry)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l.Registry)
}

// with calls f under the lock, and returns what f returns.
func with[T any](l *locked, f func(*registry.Registry) T) T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return f(l.Registry)
}

// partAtOnce is how many registrations of one client are removed or withdrawn under
// one hold of the lock, which takes a third of a millisecond: a client may have
// hundreds of thousands, for which everything else would wait for a second.
const partAtOnce = 256

// inParts calls f with what a connection owns until it reports that there is no
// more, each time under the lock, and returns the sum of its counts.
func (l *locked) inParts(owner *registry.Owner, f func(*registry.Registry, *registry.Holdings) (n int, more bool)) (sum int) {
	h := with(l, func(r *registry.Registry) *registry.Holdings { return r.Holdings(owner) })
	for more := true; more; {
		l.do(func(r *registry.Registry) {
			var n int
			n, more = f(r, h)
			sum += n
		})
	}
	return sum
}
