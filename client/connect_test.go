package client_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave"
	wirev1 "conclave/wire/v1"
)

// A client that is asked to move because another session has fewer clients gives up
// if that session makes it wait for long, and stays; if it is asked to leave because
// its session drains, it waits for as long as that takes.
func TestMove_ToASessionWithFewerClientsHasALimit(t *testing.T) {
	for _, test := range []struct {
		move *wirev1.Move
		ends bool
	}{{&wirev1.Move{Reason: "fewer", To: "s2:9603"}, true}, {&wirev1.Move{Reason: "drain"}, false}} {
		bubble(t, func(t *testing.T, w *world) {
			from, to := w.session("s1"), w.session("s2")
			to.set(func() { to.waits = true })
			c := w.client(from)
			w.eventually("it is connected", func() bool { return len(c.Connected()) == 1 })
			from.link().out <- &wirev1.ServerMessage{Sessions: []string{to.address}, Move: test.move}
			w.eventually("it waits", func() bool { return to.link() != nil })
			time.Sleep(10 * time.Second)
			synctest.Wait()
			assert.Equal(t, test.ends, to.link() == nil)
			assert.NotNil(t, from.link())
			assert.Zero(t, c.Lost())
		})
	}
}

// A session that dies while a client moves away from it is a lost session, whether
// or not another one has welcomed the client.
func TestLost_CountsASessionThatDiesDuringAMove(t *testing.T) {
	for _, welcomed := range []bool{false, true} {
		bubble(t, func(t *testing.T, w *world) {
			from, to, third := w.session("s1"), w.session("s2"), w.session("s3")
			to.set(func() { to.waits, to.accept = !welcomed, true })
			c := w.client(from)
			ctx, cancel := within(time.Second)
			defer cancel()
			stored(ctx, t, c, "svc", "a")
			from.link().out <- &wirev1.ServerMessage{Sessions: []string{to.address}, Move: &wirev1.Move{Reason: "drain"}}
			w.eventually("it has come", func() bool { return to.link() != nil && (!welcomed || len(to.link().registered()) == 1) })
			from.link().out <- &wirev1.ServerMessage{Sessions: []string{third.address}}
			time.Sleep(time.Millisecond)
			w.net.Kill("s1")
			if !welcomed {
				w.net.Kill("s2")
			}
			w.eventually("it is at another session", func() bool {
				at := c.Connected()
				return len(at) == 1 && at[0] != conclave.NodeID{Name: "s1", Incarnation: "i"}
			})
			assert.EqualValues(t, 1, c.Lost())
		})
	}
}
