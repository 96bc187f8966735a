package meta

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/elector"
	"conclave/internal/join"
	"conclave/internal/reason"
	"conclave/internal/signal"
	"conclave/internal/sleep"
	"conclave/internal/trace"
	"conclave/wire"
	"conclave/wire/serve"
	wirev1 "conclave/wire/v1"
)

// suspectPause is between two dials to a suspect. The first one follows the end of its
// stream at once, and may find a listener that is being replaced.
const suspectPause = 25 * time.Millisecond

// tenure is what the parts of a leader share while it leads one term: who it
// is, what it knows of the other nodes, and what there is to send to them.
type tenure struct {
	config  Config
	log     hclog.Logger
	address string
	term    elector.Term
	began   time.Time
	ctx     context.Context // ends with the leadership; its calls carry the term
	elector election
	view    *wire.View
	events  *serve.Events
	calls   *calls

	roster      *roster
	evidence    evidence
	beat        atomic.Uint64    // the last that the database acknowledged
	updates     signal.Broadcast // notified when there is a change to send
	renewals    signal.Broadcast // notified when there is a beat to send
	changed     signal.Signal    // another round of the arranger is needed
	loaded      chan struct{}    // closed once the stored state has been read
	warm        atomic.Bool      // this term has written: no node can hold more than was published
	propagation propagation
	failures    reason.Seen     // what complain has logged; used by the arranger only
	helpers     join.Group      // short tasks: announcing, examining suspects
	background  *join.Group     // tasks that end with the node, not with the term
	knownMetas  func() []string // the addresses of the other metas
}

// election is what a leader needs of the elector.
type election interface {
	Leading() (elector.Term, bool)
	Current() elector.Term
	Remaining() time.Duration
	Observing() bool
	Seen(term uint64)
	Wake()
	Resign(ctx context.Context) error
	Abstain(ctx context.Context) (bool, error)
}

// runRounds calls the roster's rounds, so that time in which this process does
// not run is not taken for silence of the members.
func (t *tenure) runRounds() {
	round := time.NewTicker(t.config.Beat / 2)
	defer round.Stop()
	for {
		select {
		case <-round.C:
		case <-t.ctx.Done():
			return
		}
		t.config.Trace.Claim(trace.Claim{Kind: trace.Leasing})
		t.roster.tick(time.Now())
	}
}

// event records an event of this term, and logs it: by its type, since its text may have
// what others have sent, which only a field escapes.
func (t *tenure) event(level hclog.Level, what string, epoch conclave.Epoch, data map[string]any, format string, args ...any) {
	e := wire.Event{Type: what, Term: t.term.Number, Text: fmt.Sprintf(format, args...), Data: data}
	fields := []any{"text", e.Text}
	if !epoch.IsZero() {
		e.Epoch = &epoch
		fields = append(fields, "epoch", epoch.String())
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		fields = append(fields, key, data[key])
	}
	t.events.Add(e)
	t.log.Log(level, what, fields...)
}

// complain logs why something fails: as a warning if the reason is new, or was a
// warning ten leases ago.
func (t *tenure) complain(what string, err error) {
	level := hclog.Debug
	if t.failures.New(what, err, 10*t.config.NodeLease) {
		level = hclog.Warn
	}
	t.log.Log(level, what, "error", err)
}

// outranked reports whether highest is above this term, and passes such a term
// to the elector.
func (t *tenure) outranked(highest uint64) bool {
	if highest <= t.term.Number {
		return false
	}
	t.elector.Seen(highest)
	return true
}

// identify returns the identity of the node that answers at an address.
func (t *tenure) identify(ctx context.Context, address string, limit time.Duration) (conclave.NodeID, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	id, _, err := t.calls.peers.Knock(ctx, address)
	return id, err
}

// metas returns the metas that are known to run, this one first.
func (t *tenure) metas() []*wirev1.Member {
	out := []*wirev1.Member{wire.MemberOut(wire.Member{Node: t.config.Node, Role: conclave.RoleMeta, Address: t.address})}
	for _, n := range t.roster.following() {
		out = append(out, wire.MemberOut(n.member))
	}
	return out
}

// targets returns all nodes to which a new leader announces itself: the
// members that this node knew as a follower, and all metas.
func (t *tenure) targets() []wire.Member {
	list := append([]wire.Member(nil), t.view.State().Members.List...)
	for _, address := range t.knownMetas() {
		list = append(list, wire.Member{Address: address, Role: conclave.RoleMeta})
	}
	return list
}

// announce announces this leader to members, all at once and in the background.
// Their answers are evidence: a refusal of the term as too low carries the
// highest term seen; two refused dials show that a member that
// an earlier leader could dial is dead.
func (t *tenure) announce(to []wire.Member) {
	for _, m := range to {
		t.helpers.Go(func() {
			for refused := 0; refused < 2; refused++ {
				err := t.announceTo(m.Address)
				if err == nil || !wire.Refused(err) {
					return
				}
				if refused == 1 && m.Dialable && t.roster.markDead(m.Node) {
					t.changed.Set()
				}
				if sleep.For(t.ctx, suspectPause) != nil {
					return
				}
			}
		})
	}
}

func (t *tenure) announceTo(address string) error {
	ctx, cancel := context.WithTimeout(t.ctx, t.config.NodeLease/2)
	defer cancel()
	_, err := t.calls.peers.Node(address).Announce(ctx, connect.NewRequest(&wirev1.AnnounceRequest{Term: t.term.Number, Leader: wire.NodeOut(t.config.Node), Address: t.address}))
	err = wire.FromConnect(err)
	var refusal *wire.Error
	if errors.As(err, &refusal) && refusal.Code == wire.CodeStaleEpoch {
		t.log.Warn("this term was refused: a higher one has been seen", "term", t.term.Number, "seen", refusal.Epoch.Term, "by", address)
		t.outranked(refusal.Epoch.Term)
	}
	return err
}

// calls are the requests that a meta sends to other nodes.
type calls struct {
	peers   *wire.Peers
	network wire.Network
	log     hclog.Logger
}

// fetchState returns the cluster's state as the node at an address holds it.
func (c *calls) fetchState(ctx context.Context, address string) (*wirev1.State, error) {
	res, err := c.peers.Node(address).FetchState(ctx, connect.NewRequest(&wirev1.FetchStateRequest{}))
	if err != nil {
		return nil, wire.FromConnect(err)
	}
	return res.Msg.GetState(), nil
}

// askWitness is AskWitness over the wire. It dials a connection of its own
// first: a pooled one to a killed process fails in ways that prove nothing,
// while a refused dial proves that no process listens.
func (c *calls) askWitness(ctx context.Context, address string, term uint64, lock string) (alive, known bool) {
	conn, err := c.network.DialContext(ctx, "tcp", address)
	if err != nil {
		return false, wire.Refused(err)
	}
	conn.Close()
	for range 2 { // the first call may use the pooled connection of a dead process
		var res *connect.Response[wirev1.WitnessResponse]
		res, err = c.peers.Meta(address).Witness(ctx, connect.NewRequest(&wirev1.WitnessRequest{Term: term, Lock: lock}))
		if err == nil {
			return res.Msg.GetAlive(), true
		}
	}
	return false, wire.Refused(wire.FromConnect(err))
}

// wakePeers notifies the other metas that the term was resigned.
func (c *calls) wakePeers(ctx context.Context, metas []string, resigned elector.Term) {
	var waking sync.WaitGroup
	for _, address := range metas {
		waking.Go(func() {
			_, err := c.peers.Meta(address).Wake(ctx, connect.NewRequest(&wirev1.WakeRequest{Term: resigned.Number}))
			if err != nil && ctx.Err() == nil {
				c.log.Debug("could not wake a peer", "address", address, "error", wire.FromConnect(err))
			}
		})
	}
	waking.Wait()
}
