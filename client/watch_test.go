package client_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/client"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// config returns a message with a value as of an epoch; "" means that there is
// none.
func config(seq uint64, id, value string) *wirev1.ServerMessage {
	return &wirev1.ServerMessage{Config: &wirev1.WatchedValues{
		Epoch: wire.EpochOut(conclave.Epoch{Term: 1, Seq: seq}), Values: []*wirev1.WatchedValue{{Id: id, Set: value != "", Value: value}},
	}}
}

// watched returns the ids that a session was asked to send, in order.
func (l *fakeLink) watched() (ids, ended []string) {
	for _, m := range l.messages() {
		ids, ended = append(ids, m.GetWatch()...), append(ended, m.GetUnwatch()...)
	}
	return ids, ended
}

// A value that is watched is that of the newest configuration, whichever session
// sends it, and stays while there is no session. (Article 002: provide data.)
func TestWatch_NeverGoesBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		one, two := w.session("s1"), w.session("s2")
		c := w.client(one)
		v, err := c.Watch("limits")
		require.NoError(t, err)
		same, err := c.Watch("limits")
		require.NoError(t, err)
		_, known := v.Last()
		assert.False(t, known)
		w.eventually("asked", func() bool { return one.link() != nil && len(one.link().messages()) > 1 })

		one.link().out <- config(5, "limits", "10")
		assert.Equal(t, client.ConfigValue{ID: "limits", Value: "10", Set: true}, <-v.C())
		assert.Equal(t, "10", (<-same.C()).Value)
		one.link().out <- config(5, "limits", "10")
		one.link().out <- config(6, "other", "10")
		one.link().out <- config(7, "limits", "20")
		assert.Equal(t, "20", (<-v.C()).Value, "what is the same is not reported again")

		one.link().out <- &wirev1.ServerMessage{Sessions: []string{two.address}}
		time.Sleep(time.Second)
		w.net.Kill("s1")
		w.eventually("asked again", func() bool {
			if two.link() == nil {
				return false
			}
			ids, _ := two.link().watched()
			return len(ids) == 1
		})
		two.link().out <- config(6, "limits", "10") // it is behind
		synctest.Wait()
		last, known := v.Last()
		assert.True(t, known)
		assert.Equal(t, "20", last.Value)
		later, err := c.Watch("limits")
		require.NoError(t, err)
		assert.Equal(t, "20", (<-later.C()).Value, "a later watch is not behind")
		two.link().out <- config(8, "limits", "")
		assert.Equal(t, client.ConfigValue{ID: "limits"}, <-v.C())

		v.Close()
		_, open := <-v.C()
		assert.False(t, open)
		two.link().out <- config(9, "limits", "30")
		synctest.Wait()
		last, _ = same.Last()
		assert.Equal(t, "30", last.Value, "another watch of the same id goes on")
		same.Close()
		same.Close()
		later.Close()
		w.eventually("ended", func() bool { _, ended := two.link().watched(); return len(ended) == 1 })
	})
}

func TestWatch_RefusesWhatIsInvalid(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(w.session("s1"))
		_, err := c.Watch("")
		assert.ErrorContains(t, err, "want an id")
		for i := range 1024 {
			_, err := c.Watch(fmt.Sprint(i))
			require.NoError(t, err)
		}
		_, err = c.Watch("0")
		assert.NoError(t, err, "it is watched already")
		_, err = c.Watch("more")
		assert.ErrorContains(t, err, "can watch 1024")
		ctx, cancel := within(time.Second)
		defer cancel()
		require.NoError(t, c.Close(ctx))
		_, err = c.Watch("late")
		assert.ErrorIs(t, err, client.ErrClosed)
	})
}
