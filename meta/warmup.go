package meta

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/internal/sleep"
	"conclave/slot"
	conclavesql "conclave/sql"
	"conclave/wire"
)

// The warm-up: a new leader has announced itself, and learns the state of the
// cluster before it decides. The original waits for a fixed 30 s. Here the wait
// ends when every stored member has sent a beat, or after one node lease, when
// no silent node can still hold a lease.

// load reads the state that the previous leader wrote.
func (a *arranger) load(ctx context.Context) error {
	var pause time.Duration
	for err := a.reread(ctx); err != nil; err = a.reread(ctx) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		a.complain("cannot read the cluster's state, will retry", err)
		pause = sleep.Longer(pause, 20*time.Millisecond, a.config.Beat/2)
		if err := sleep.For(ctx, pause); err != nil {
			return err
		}
	}
	// As a follower this node may have seen more than the database has now.
	a.evidence.see(a.view.TableEpoch(), a.address)
	seen := a.view.State()
	a.staleStop = seen.Members.Epoch.IsZero()
	for _, row := range []struct {
		kind         conclavesql.Kind
		seen, stored conclave.Epoch
	}{
		{conclavesql.KindBlacklist, seen.Blacklist.Epoch, a.state.Blacklist.Epoch},
		{conclavesql.KindConfig, seen.Config.Epoch, a.state.Config.Epoch},
		{conclavesql.KindSwitches, seen.Switches.Epoch, a.state.Switches.Epoch},
	} {
		if row.stored.Less(row.seen) { // nodes hold the table and join again; only operators know these
			a.log.Warn("the database was restored: what operators have set since is lost and must be set again",
				"kind", row.kind, "stored", row.stored.String(), "seen", row.seen.String())
		}
	}
	if _, err := a.view.Apply(wire.StateOut(a.state, nil)); err != nil && !errors.Is(err, wire.ErrBehind) {
		return fmt.Errorf("apply the stored state: %w", err)
	}

	announced := map[string]bool{} // by address
	for _, m := range a.targets() {
		announced[m.Address] = true
	}
	a.roster.seed(a.state.Members, time.Now())
	var others []wire.Member
	for _, m := range a.state.Members.List {
		if !announced[m.Address] {
			others = append(others, m)
		}
	}
	a.announce(others)
	close(a.loaded)
	return nil
}

// warmUp waits for evidence, dials the members that have sent no beat, and
// seals every kind into this term.
func (a *arranger) warmUp(ctx context.Context) error {
	began := time.Now()
	limit := began.Add(a.config.NodeLease)
	if fixed := a.config.WarmUp; fixed > 0 {
		limit = began.Add(fixed)
	}
	for {
		ready, until := a.evidenceComplete()
		now := time.Now()
		if a.config.WarmUp == 0 && ready || !now.Before(limit) {
			break
		}
		if until.IsZero() || limit.Before(until) || a.config.WarmUp > 0 {
			until = limit
		}
		timer := time.NewTimer(until.Sub(now))
		select {
		case <-a.changed.C():
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if a.resignIfUnreachable() {
		<-ctx.Done()
		return ctx.Err()
	}
	kept, lost := a.dialSilent(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	a.log.Info("warm", "term", a.fence.Term, "took", time.Since(began), "members", len(a.roster.list(nil).List), "unheard but alive", kept, "lost", lost)
	for try := 1; ; try++ {
		err := a.seal(ctx)
		switch {
		case err == nil:
			a.warm.Store(true)
			return nil
		case errors.Is(err, errDeposed) || errors.Is(err, errOldRead) || ctx.Err() != nil:
			return err
		case errors.Is(err, errAgain):
			if err := sleep.For(ctx, time.Millisecond); err != nil {
				return err
			}
			continue
		}
		a.complain("could not seal the state, will retry", err)
		if try%10 == 0 { // the node with the newer table cannot be read: ask another one
			a.evidence.forget()
		}
		if err := sleep.For(ctx, a.config.Beat/10); err != nil {
			return err
		}
	}
}

// evidenceComplete reports whether there is no member left to wait for. If not,
// until is when this may change without another beat.
//
// With an empty list there is no member to wait for, but the database may have
// been emptied under living nodes. So wait until a data node has joined and no
// other one has followed for a settling time. A starting cluster is then ready
// a quarter of a second after its last data node, instead of after a whole
// lease.
func (a *arranger) evidenceComplete() (ready bool, until time.Time) {
	if len(a.state.Members.List) > 0 {
		return a.roster.allSeen(), time.Time{}
	}
	d := a.roster.data(time.Now())
	if d.joined.IsZero() || len(d.live) < a.floor() {
		return false, time.Time{}
	}
	until = d.joined.Add(a.config.Settle)
	return !time.Now().Before(until), until
}

// dialSilent dials the stored members that have sent no beat, all at once, and
// keeps those that answer: nodes whose old leader froze notice its silence only
// about now.
func (a *arranger) dialSilent(ctx context.Context) (kept, lost []string) {
	unseen := a.roster.unseen()
	answers := make([]bool, len(unseen))
	var asking sync.WaitGroup
	for i, m := range unseen {
		asking.Go(func() {
			id, err := a.identify(ctx, m.Address, identifyTimeout)
			answers[i] = err == nil && id == m.Node
		})
	}
	asking.Wait()
	if ctx.Err() != nil {
		return nil, nil
	}
	for i, m := range unseen {
		if answers[i] {
			kept = append(kept, m.Node.Name)
			a.roster.markAlive(m.Node, time.Now())
		} else if a.roster.evict(m.Node, false, time.Now()) {
			lost = append(lost, m.Node.Name)
			a.event(hclog.Info, "node.lost", conclave.Epoch{}, map[string]any{"node": m.Node.Name, "role": m.Role, "why": "no beat reached the new leader"},
				"%s %s was lost while there was no leader", m.Role, m.Node.Name)
		}
	}
	return kept, lost
}

// seal takes every kind over under the term's epoch, so that no earlier chain of
// writes can continue. It is the first write of the term, except after a restore of
// the database: if a node holds a newer table than it, the leader first adopts that
// table, and grants the slots in which the two differ again.
func (a *arranger) seal(ctx context.Context) error {
	seen, address := a.evidence.highest()
	if seen.Term >= a.fence.Term && a.seq == 0 {
		// Another node led this term, or a higher one, before the restore.
		a.elector.Seen(seen.Term + 1)
		<-ctx.Done()
		return ctx.Err()
	}
	if a.state.Table.Epoch.Less(seen) {
		// Adopt before sealing. If the old table were sealed and this leader
		// died then, the next leader would take it for the newest.
		if err := a.adopt(ctx, seen, address); err != nil {
			return err
		}
	}
	return a.sealAll(ctx)
}

// adopt continues from a table that a node still holds and the database has
// lost.
func (a *arranger) adopt(ctx context.Context, epoch conclave.Epoch, address string) error {
	table := a.view.Table()
	replicas := a.view.State().Replicas
	if address != a.address {
		ask, cancel := context.WithTimeout(ctx, identifyTimeout)
		defer cancel()
		held, err := a.calls.fetchState(ask, address)
		if err != nil {
			return fmt.Errorf("fetch the newer table from %s: %w", address, err)
		}
		theirs := wire.NewView()
		if _, err := theirs.Apply(held); err != nil {
			return fmt.Errorf("read the newer table of %s: %w", address, err)
		}
		table, replicas = theirs.Table(), theirs.State().Replicas
	}
	in, _ := a.input()
	next, moves, err := slot.Adopt(a.state.Table, table, in)
	if err != nil {
		return fmt.Errorf("adopt the table of %s: %w", address, err)
	}
	a.log.Warn("the database was restored: a node holds a newer slot table, which is adopted",
		"stored", a.state.Table.Epoch.String(), "adopted", epoch.String(), "from", address, "granted again", len(moves))
	if replicas == 0 {
		replicas = a.config.Replicas
	}
	if err := a.write(ctx, conclavesql.KindTable, tableBody{replicas, next.Slots}); err != nil {
		return fmt.Errorf("write the adopted table: %w", err)
	}
	a.adoptWait = time.Now().Add(a.config.NodeLease)
	a.reportMoves(moves, "the database was restored")
	return nil
}

// evidence is what the beats of a warm-up report about a slot table that the
// database does not have, because it was restored from a backup.
type evidence struct {
	mu      sync.Mutex     // guards the rest
	table   conclave.Epoch // the highest that any node holds
	address string         // of the node that holds it
}

func (e *evidence) see(table conclave.Epoch, address string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.table.Less(table) {
		e.table, e.address = table, address
	}
}

func (e *evidence) highest() (conclave.Epoch, string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.table, e.address
}

// forget drops the evidence; later beats may report it again.
func (e *evidence) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.table, e.address = conclave.Epoch{}, ""
}
