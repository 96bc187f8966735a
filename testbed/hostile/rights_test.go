package hostile_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"

	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

func strangersRegistration(ctx context.Context, t *testing.T, w *target) {
	ctx, end := lasting(ctx, 5*time.Second)
	defer end()
	c := newConn(malloryToken)
	defer c.peers.Close()
	s := c.open(ctx, w.at["session-1"], "mallory")
	defer s.cancel()
	_ = s.Send(&wirev1.ClientMessage{Publishers: []*wirev1.Publisher{{Id: w.stranger, DataInfoId: dataInfo("strangers"), Version: 1 << 40, Withdrawn: true}}})
	assert.NoError(t, s.until(func(m *wirev1.ServerMessage) bool {
		assert.Empty(t, m.GetAccepted())
		return len(m.GetRefused()) == 1
	}))
}

func publisherAsNode(ctx context.Context, t *testing.T, w *target) {
	c := newConn(malloryToken)
	defer c.peers.Close()
	for _, meta := range []string{"meta-1", "meta-2"} {
		_, err := c.peers.Meta(w.at[meta]).Witness(ctx, connect.NewRequest(&wirev1.WitnessRequest{Term: 1, Lock: "x"}))
		assert.Equal(t, wire.CodeForbidden, wire.CodeOf(wire.FromConnect(err)), "%v", err)
		_, err = c.peers.Meta(w.at[meta]).Wake(ctx, connect.NewRequest(&wirev1.WakeRequest{Term: 1}))
		assert.Equal(t, wire.CodeForbidden, wire.CodeOf(wire.FromConnect(err)), "%v", err)
	}
	_, err := c.peers.Data(w.at["data-1"]).Finish(ctx, connect.NewRequest(&wirev1.FinishRequest{}))
	assert.Equal(t, wire.CodeForbidden, wire.CodeOf(wire.FromConnect(err)), "%v", err)
	_, err = c.peers.Session(w.at["session-1"]).Diff(ctx, connect.NewRequest(&wirev1.DiffRequest{}))
	assert.Equal(t, wire.CodeForbidden, wire.CodeOf(wire.FromConnect(err)), "%v", err)
	assert.Equal(t, http.StatusForbidden, post(ctx, w.at["meta-1"], "/v1/leader/resign", malloryToken, nil, nil))
}

func impossibleTerms(ctx context.Context, t *testing.T, w *target) {
	ctx, end := lasting(ctx, 10*time.Second)
	defer end()
	c := newConn(nodeToken)
	defer c.peers.Close()
	epoch := &wirev1.Epoch{Term: math.MaxUint64, Seq: math.MaxUint64}
	mallory := &wirev1.Node{Name: "data-9", Incarnation: "x"}
	high := wire.WithTerm(ctx, math.MaxUint64)
	for node, address := range w.at {
		_, err := c.peers.Node(address).Announce(high, connect.NewRequest(&wirev1.AnnounceRequest{Term: math.MaxUint64, Leader: mallory, Address: attackerIP + ":1"}))
		assert.Error(t, err, "announced to %s", node)
	}
	for slot := range uint32(16) {
		for _, data := range []string{"data-1", "data-2"} {
			_, _ = c.peers.Data(w.at[data]).Finish(ctx, connect.NewRequest(&wirev1.FinishRequest{Successor: mallory, Slots: []*wirev1.FinishSlot{{Slot: slot, LeaderEpoch: epoch}}}))
			_, _ = c.peers.Data(w.at[data]).Finish(high, connect.NewRequest(&wirev1.FinishRequest{Successor: mallory, Slots: []*wirev1.FinishSlot{{Slot: slot, LeaderEpoch: epoch}}}))
		}
		for _, session := range []string{"session-1", "session-2"} {
			_, _ = c.peers.Session(w.at[session]).Diff(ctx, connect.NewRequest(&wirev1.DiffRequest{Asker: mallory, AskerAddress: attackerIP + ":1", Slot: slot, LeaderEpoch: epoch}))
		}
	}
	for _, meta := range []string{"meta-1", "meta-2"} {
		_, _ = c.peers.Meta(w.at[meta]).Wake(ctx, connect.NewRequest(&wirev1.WakeRequest{Term: math.MaxUint64}))
		_, _ = c.peers.Meta(w.at[meta]).Witness(high, connect.NewRequest(&wirev1.WitnessRequest{Term: math.MaxUint64, Lock: "x"}))
	}
	time.Sleep(4 * time.Second) // longer than the leases
}

// guessedTokens asks with tokens that are not valid, and with one that is longer than
// all headers may be.
func guessedTokens(ctx context.Context, t *testing.T, w *target) {
	ctx, end := lasting(ctx, 2*time.Second)
	defer end()
	giant := strings.Repeat("t", 2<<20)
	nodes := []string{"meta-1", "data-1", "session-1", "session-2"}
	for _, node := range nodes {
		assert.NotEqual(t, http.StatusOK, post(ctx, w.at[node], "/v1/stopping", giant, nil, nil), node)
	}
	each(16, func(i int) {
		node := nodes[i%len(nodes)]
		for n := 0; ctx.Err() == nil; n++ {
			status := post(ctx, w.at[node], "/v1/stopping", fmt.Sprint("guess-", i, "-", n), nil, nil)
			assert.Contains(t, []int{0, http.StatusUnauthorized, http.StatusServiceUnavailable}, status, node)
		}
	})
}
