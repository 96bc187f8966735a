package meta

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/internal/node"
	"conclave/wire"
)

// A command may come to a new leader before the node that it is about has joined: it
// is not answered that there is no such node.
func TestMember_OfYoungTermIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		self := conclave.NodeID{Name: "meta-2", Incarnation: "a"}
		l := &leader{tenure: &tenure{
			config: Config{Config: node.Config{Node: self, Beat: time.Second}}, began: time.Now(), ctx: t.Context(),
			roster: newRoster(3*time.Second, time.Second, time.Now()),
		}}
		m, err := l.member(t.Context(), "meta-2")
		require.NoError(t, err)
		assert.Equal(t, self, m.Node)

		other := wire.Member{Node: conclave.NodeID{Name: "meta-1", Incarnation: "b"}, Role: conclave.RoleMeta}
		began := time.Now()
		go func() {
			time.Sleep(300 * time.Millisecond)
			l.roster.admit(other, conclave.NodeID{}, &stream{}, time.Now())
		}()
		m, err = l.member(t.Context(), "meta-1")
		require.NoError(t, err)
		assert.Equal(t, other, m)
		assert.Equal(t, 300*time.Millisecond, time.Since(began))

		_, err = l.member(t.Context(), "nosuch")
		assert.Equal(t, wire.CodeNotFound, wire.CodeOf(err))
		assert.Equal(t, time.Second, time.Since(began), "a beat after the term began")
		_, err = l.member(t.Context(), "nosuch")
		assert.Equal(t, wire.CodeNotFound, wire.CodeOf(err))
		assert.Equal(t, time.Second, time.Since(began), "at once")
	})
}
