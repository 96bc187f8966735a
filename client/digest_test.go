package client_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/client"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// large is a value that is worth a digest.
var large = strings.Repeat("x", 1000)

// named returns the digests that were received, and fails for an id that was named
// twice.
func (l *fakeLink) named(t *testing.T) map[string]*wirev1.PublisherDigest {
	out := map[string]*wirev1.PublisherDigest{}
	for _, m := range l.messages() {
		for _, d := range m.GetDigests() {
			assert.Nil(t, out[d.GetId()], "named twice")
			out[d.GetId()] = d
		}
	}
	return out
}

// digestWorld is a client whose session is lost, after publish has published
// something there; the other session finds what finds reports.
func digestWorld(t *testing.T, publish func(context.Context, *fakeSession, *client.Client), finds func(id string) bool, check func(context.Context, *world, *fakeSession)) {
	bubble(t, func(t *testing.T, w *world) {
		one, two := w.session("s1"), w.session("s2")
		two.set(func() { two.finds = finds })
		c := w.client(one)
		ctx, cancel := within(10 * time.Second)
		defer cancel()
		publish(ctx, one, c)
		one.link().out <- &wirev1.ServerMessage{Sessions: []string{one.address, two.address}}
		time.Sleep(time.Millisecond)
		w.net.Kill("s1")
		w.eventually("the client is at s2", func() bool { return two.link() != nil })
		check(ctx, w, two)
	})
}

// Another session is sent a digest of what data has, and everything else whole:
// small values, what is not known to be stored, withdrawals.
func TestReplay_NamesWhatDataHas(t *testing.T) {
	var stays, small, changed, withdrawn *client.Publication
	digestWorld(t, func(ctx context.Context, one *fakeSession, c *client.Client) {
		stays, small = stored(ctx, t, c, "stays", large), stored(ctx, t, c, "small", "x")
		changed, withdrawn = stored(ctx, t, c, "changed", large), stored(ctx, t, c, "withdrawn", large)
		require.NoError(t, withdrawn.Withdraw())
		require.NoError(t, withdrawn.Stored(ctx))
		one.set(func() { one.accept = true })
		require.NoError(t, changed.Update([]string{large + "2"}))
		require.NoError(t, changed.Accepted(ctx))
	}, func(string) bool { return true }, func(ctx context.Context, w *world, two *fakeSession) {
		w.eventually("all is at s2", func() bool { return len(two.link().registered())+len(two.link().named(t)) == 4 })
		require.Len(t, two.link().named(t), 1)
		d := two.link().named(t)[stays.ID()]
		assert.True(t, wire.DigestFits(d, []string{large}))
		assert.EqualValues(t, 1, d.GetVersion())
		whole := two.link().registered()
		assert.Equal(t, []string{"x"}, whole[small.ID()].GetValues())
		assert.Equal(t, []string{large + "2"}, whole[changed.ID()].GetValues())
		assert.True(t, whole[withdrawn.ID()].GetWithdrawn())
		require.NoError(t, changed.Stored(ctx))
	})
}

// What the session does not find is sent with its values, once, and is not accepted
// before.
func TestReplay_SendsWhatIsWanted(t *testing.T) {
	var pubs []*client.Publication
	value := strings.Repeat(large, 8)
	digestWorld(t, func(ctx context.Context, _ *fakeSession, c *client.Client) {
		for i := range 1000 {
			p, err := c.Publish(ctx, fmt.Sprint("svc-", i), []string{value})
			require.NoError(t, err)
			pubs = append(pubs, p)
		}
		for _, p := range pubs {
			require.NoError(t, p.Stored(ctx))
		}
	}, func(id string) bool { return id[0] >= '8' }, func(_ context.Context, w *world, two *fakeSession) {
		w.eventually("all is named", func() bool { return len(two.link().named(t)) == len(pubs) })
		whole := func() (out []string) {
			for _, m := range two.link().messages() {
				assert.LessOrEqual(t, len(m.GetDigests())*len(value), 1<<20, "the values that a message names are bounded")
				for _, p := range m.GetPublishers() {
					out = append(out, p.GetId())
				}
			}
			return out
		}
		var want []string
		for _, p := range pubs {
			if p.ID()[0] < '8' {
				want = append(want, p.ID())
			}
		}
		w.eventually("what is wanted is sent", func() bool { return len(whole()) >= len(want) })
		time.Sleep(time.Second)
		assert.ElementsMatch(t, want, whole())
	})
}

// A change of what was named goes its usual way; that the older version is wanted
// does not matter then.
func TestReplay_ChangeReplacesWhatIsWanted(t *testing.T) {
	var p *client.Publication
	digestWorld(t, func(ctx context.Context, _ *fakeSession, c *client.Client) {
		p = stored(ctx, t, c, "svc", large)
	}, func(string) bool { // calls of the session, in which the answer is made
		if p.Version() == 1 {
			require.NoError(t, p.Update([]string{"new"}))
		}
		return false
	}, func(ctx context.Context, w *world, two *fakeSession) {
		w.eventually("the change is stored", func() bool { return p.Stored(ctx) == nil })
		time.Sleep(time.Second)
		for _, m := range two.link().messages() {
			for _, sent := range m.GetPublishers() {
				assert.Equal(t, []string{"new"}, sent.GetValues())
			}
		}
	})
}

// A session of an older build is sent everything.
func TestReplay_OlderSessionIsSentEverything(t *testing.T) {
	var p *client.Publication
	digestWorld(t, func(ctx context.Context, _ *fakeSession, c *client.Client) {
		p = stored(ctx, t, c, "svc", large)
	}, nil, func(_ context.Context, w *world, two *fakeSession) {
		w.eventually("it is sent", func() bool { return two.link().registered()[p.ID()] != nil })
		assert.Empty(t, two.link().named(t))
	})
}
