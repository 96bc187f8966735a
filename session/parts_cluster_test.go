package session_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/client"
	"conclave/slot"
	"conclave/wire"
	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

// A list that is larger than any message reaches its subscribers, also those that
// subscribe later, and so does a change of it.
func TestParts_ListLargerThanAMessageIsPushed(t *testing.T) {
	bubble(t, 1, 2, func(t *testing.T, c *cluster) {
		publisher, early := c.client("publisher", "session-1"), c.watch(c.client("early", "session-1"), "svc")
		var all []string
		var pubs []*client.Publication
		for len(all)*60_000 < wire.MaxMessage+list.PartsFrom {
			var values []string
			for range 30 {
				values = append(values, fmt.Sprintf("%d:%s", len(all)+len(values), strings.Repeat("x", 60_000)))
			}
			pubs, all = append(pubs, c.publish(publisher, "svc", values...)), append(all, values...)
		}
		for _, p := range pubs {
			require.NoError(t, p.Stored(c.ctx))
		}
		late := c.watch(c.client("late", "session-2"), "svc")
		c.eventually("both see the whole list", func() bool { return len(early.last()) == len(all) && len(late.last()) == len(all) })
		assert.True(t, early.shows(all...)())
		assert.True(t, late.shows(all...)())

		last := pubs[len(pubs)-1]
		n := len(all) - 30
		require.NoError(t, last.Update([]string{"changed"}))
		c.eventually("both see the change", func() bool {
			return early.shows(append(slices.Clone(all[:n]), "changed")...)() && late.shows(append(slices.Clone(all[:n]), "changed")...)()
		})
		time.Sleep(time.Second)
		for _, h := range []*history{early, late} {
			for _, d := range h.all() {
				assert.Zero(t, len(d.Values)%30*(len(d.Values)-n-1), "a part of a list is not shown: %d values", len(d.Values))
			}
		}
	})
}

// A large list that changes all the time arrives, each time whole, although it is sent
// in parts for longer than it takes to change, and the slot's leader is lost.
func TestParts_ListThatChangesAllTheTimeArrives(t *testing.T) {
	bubble(t, 2, 1, func(t *testing.T, c *cluster) {
		publisher := c.client("publisher")
		var pubs []*client.Publication
		for i := range 90 {
			pubs = append(pubs, c.published(publisher, "svc", fmt.Sprint(i, strings.Repeat("x", 60_000))))
		}
		r := c.raw("reader", "session-1")
		defer r.end()
		r.send(&wirev1.ClientMessage{Hello: &wirev1.ClientHello{Client: "reader", Parts: true}})
		r.send(&wirev1.ClientMessage{Subscribe: []*wirev1.Subscription{{Id: "s", DataInfoId: svc}}})

		ctx, stop := context.WithCancel(c.ctx)
		defer stop()
		var changes sync.WaitGroup
		changes.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				assert.NoError(t, pubs[i%90].Update([]string{fmt.Sprint("changed", i, strings.Repeat("y", 60_000))}))
				time.Sleep(5 * time.Millisecond)
			}
		})
		var a list.Assembly
		var versions []int64
		for parts := 0; len(versions) < 6; {
			r.until(func(m *wirev1.ServerMessage) bool {
				for _, p := range m.GetPushes() {
					require.NotNil(t, p.GetPart())
					whole, err := a.Add(p, nil)
					require.NoError(t, err)
					if parts++; whole == nil {
						continue
					}
					assert.Len(t, whole.Values, 90)
					versions = append(versions, p.GetDatum().GetVersion())
					if len(versions) == 3 {
						kill(c, c.datas[c.meta.view.Table().Slots[slot.Of(svc, 16)].Leader.Name])
					}
				}
				return len(m.GetPushes()) > 0
			})
			if m := (&wirev1.ClientMessage{Ping: uint64(parts + 1)}); parts%5 == 0 {
				r.send(m)
			}
		}
		stop()
		changes.Wait()
		assert.True(t, slices.IsSorted(versions), "%v", versions)
		assert.Len(t, slices.Compact(versions), 6)
	})
}
