package zklatch_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
	"conclave/elector/electortest"
	"conclave/lab/article004/zklatch"
)

// If an answer or a request of a win or of a beat is lost, the term is still led, by
// one node.
func TestStrategy_LostAnswerCostsNoTerm(t *testing.T) {
	wire(t, func(t *testing.T, b *bench) {
		b.server.LoseReply("multi", "/term")
		c := electortest.NewCluster(t, b.world(timeout), 1)
		defer c.Stop()
		leader, term := c.Leader()
		assert.Equal(t, uint64(1), term.Number, "the win was executed, and found in the record")
		assert.Equal(t, elector.CauseFirst, term.Cause)
		assert.Zero(t, b.server.Faults())
		for _, lose := range []func(){
			func() { b.server.LoseReply("multi", "/term") },
			func() { b.server.DropRequest("multi", "/term") },
		} {
			beat := leader.Current().Beat
			lose()
			c.Until("two more beats", func() bool { return leader.Current().Beat >= beat+2 })
			assert.Zero(t, b.server.Faults())
		}
		assert.Len(t, c.Ledger(), 1)
	})
}

// If the leader's place is deleted, by an operator or because its session has
// expired, its next beat finds that, and the next node leads.
func TestStrategy_LeaderWithoutItsPlaceIsDeposed(t *testing.T) {
	wire(t, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.world(timeout), 2)
		defer c.Stop()
		old, term := c.Leader()
		u := b.user()
		b.until("both to stand in the line", func() bool { return len(b.names(u, "/election/line")) == 2 })
		participants, err := u.Latch(b.path+"/election/line", "").Participants(t.Context())
		require.NoError(t, err)
		require.Equal(t, old.ID.String(), string(participants[0].Data))
		began := time.Now()
		require.NoError(t, u.Delete(t.Context(), participants[0].Path, zklatch.AnyVersion))
		next, nextTerm := c.LeaderAfter(term.Number)
		assert.NotEqual(t, old.ID, next.ID, "the old leader is behind the other now")
		assert.Equal(t, term.Number+1, nextTerm.Number)
		assert.Less(t, time.Since(began), timeout/2, "no wait for the end of a session")
	})
}

// If the record is deleted or set back, a node that has seen the higher term wins
// above it.
func TestStrategy_RecordSetBack(t *testing.T) {
	wire(t, func(t *testing.T, b *bench) {
		c := electortest.NewCluster(t, b.world(timeout), 1)
		defer c.Stop()
		_, term := c.Leader()
		require.NoError(t, b.user().Delete(t.Context(), b.path+"/election/term", zklatch.AnyVersion))
		_, next := c.LeaderAfter(term.Number)
		assert.Equal(t, term.Number+1, next.Number)
		assert.Equal(t, elector.CauseRestored, next.Cause)
	})
}

// With a session that ends before the lease two nodes could believe they lead: no
// term is won.
func TestStrategy_SessionShorterThanLeaseWinsNoTerm(t *testing.T) {
	wire(t, func(t *testing.T, b *bench) {
		b.server.Limits(time.Second, 2*time.Second)
		c := electortest.NewCluster(t, b.world(timeout), 1)
		defer c.Stop()
		n := c.Nodes()[0]
		c.Until("some rounds", func() bool { return n.Stats().Failed >= 3 })
		assert.Empty(t, c.Ledger())
	})
}

// If two nodes try to write the next term, the record's version lets one succeed. A
// node that is not the first in the queue any more writes nothing, whatever version
// it has read.
func TestStrategy_OnlyFirstInQueueWritesRecord(t *testing.T) {
	wire(t, func(t *testing.T, b *bench) {
		ctx := t.Context()
		strategy := func() (*zklatch.Strategy, *user, elector.Candidate) {
			u := b.user()
			s, err := zklatch.NewStrategy(zklatch.StrategyConfig{Tree: u.Conn, Path: b.path + "/election", Rand: random(uint64(b.clients.Load()))})
			require.NoError(t, err)
			t.Cleanup(func() { s.Close() })
			id := conclave.NodeID{Name: "n", Incarnation: string(rune('a' + b.clients.Load()))}
			return s, u, elector.Candidate{ID: id, Lease: timeout, Beat: timeout / 3}
		}
		a, au, me := strategy()
		won := b.win(a, me)
		assert.Equal(t, me.ID, won.Leader)

		other, _, him := strategy()
		seen, err := other.Round(ctx, him, elector.Term{})
		require.NoError(t, err)
		assert.Equal(t, me.ID, seen.Leader, "losing is a result")

		written, err := au.Fenced(ctx, b.path+"/election", me.ID, won.Number, b.path+"/state", []byte("x"))
		require.NoError(t, err)
		assert.True(t, written)

		session, _ := au.Session()
		b.server.Expire(session.ID) // a has not read yet
		written, err = b.user().Fenced(ctx, b.path+"/election", me.ID, won.Number, b.path+"/state", []byte("y"))
		require.NoError(t, err)
		assert.False(t, written, "the record still names it, but its place is deleted")

		me.Holding = won.Number
		deposed, err := a.Round(ctx, me, won)
		require.NoError(t, err)
		assert.NotEqual(t, me.ID, deposed.Leader, "its beat finds that")
		next := b.win(other, him)
		assert.Equal(t, won.Number+1, next.Number)
		assert.Equal(t, elector.CauseExpired, next.Cause)
		assert.Equal(t, me.ID, next.Previous)
	})
}

// win plays rounds until the candidate leads.
func (b *bench) win(s *zklatch.Strategy, me elector.Candidate) (won elector.Term) {
	b.t.Helper()
	b.until("a win", func() bool {
		term, err := s.Round(b.t.Context(), me, elector.Term{})
		require.NoError(b.t, err)
		won = term
		return term.Leader == me.ID
	})
	return won
}

func TestStrategy_RejectsInvalidConfig(t *testing.T) {
	_, err := zklatch.NewStrategy(zklatch.StrategyConfig{Path: "/a"})
	assert.ErrorContains(t, err, "Tree")
	for _, path := range []string{"", "a", "/a/"} {
		_, err = zklatch.NewStrategy(zklatch.StrategyConfig{Tree: &zklatch.Conn{}, Path: path})
		assert.ErrorContains(t, err, "Path")
	}
	_, err = zklatch.Dial(zklatch.ConnConfig{Timeout: time.Second})
	assert.ErrorContains(t, err, "Servers")
	_, err = zklatch.Dial(zklatch.ConnConfig{Servers: []string{"zk:2181"}})
	assert.ErrorContains(t, err, "Timeout")
}
