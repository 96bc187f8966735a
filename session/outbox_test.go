package session

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/internal/contain"
	"conclave/session/registry"
	"conclave/wire/admit"
	wirev1 "conclave/wire/v1"
)

// pong adds an answer to a ping.
func pong(o *outbox, n uint64) { o.add(func(what *registry.Outbox) { what.Pong = n }) }

// What is added while a message is being sent is sent after it, by the same
// goroutine, and none is left when nothing is.
func TestOutbox_SendsOneAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sending, sent := 0, []uint64{}
		o := &outbox{send: func(m *wirev1.ServerMessage) error {
			sending++
			assert.Equal(t, 1, sending)
			time.Sleep(time.Second)
			sending--
			sent = append(sent, m.GetPong())
			return nil
		}}
		pong(o, 1)
		synctest.Wait()
		pong(o, 2)
		pong(o, 3) // replaces the one before it
		time.Sleep(3 * time.Second)
		synctest.Wait()
		assert.False(t, o.sending, "nothing is left")
		pong(o, 4)
		synctest.Wait()
		pong(o, 5)
		o.finish()
		pong(o, 6)
		o.wait()
		assert.Equal(t, []uint64{1, 3, 4, 5}, sent)
	})
}

// After cut nothing more is sent, and a stream that fails is reported once.
func TestOutbox_EndsWithTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent, failed := 0, 0
		var err error
		o := &outbox{send: func(*wirev1.ServerMessage) error { sent++; return err }, failed: func() { failed++ }}
		pong(o, 1)
		synctest.Wait()
		err = errors.New("broken")
		pong(o, 2)
		synctest.Wait()
		pong(o, 3)
		o.finish()
		o.wait()
		assert.Equal(t, 2, sent)
		assert.Equal(t, 1, failed)

		cut := &outbox{send: func(*wirev1.ServerMessage) error { time.Sleep(time.Second); sent++; return nil }}
		pong(cut, 1)
		synctest.Wait()
		pong(cut, 2)
		cut.cut()
		cut.wait()
		assert.Equal(t, 3, sent)
	})
}

// A client that does not read its messages, whatever else it does, is given up after
// a time that is long for one message.
func TestOutbox_UnreadMessageEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := make(chan struct{})
		slow := time.Duration(0)
		o := &outbox{unread: func() { close(broken) }, failed: func() {}}
		o.send = func(*wirev1.ServerMessage) error {
			select {
			case <-time.After(slow):
				return nil
			case <-broken:
				return errors.New("broken")
			}
		}
		slow = 20 * time.Second
		for n := range uint64(5) { // each is read in time, if slowly
			pong(o, n+1)
			time.Sleep(slow)
			synctest.Wait()
		}
		slow = time.Hour
		pong(o, 9)
		time.Sleep(29 * time.Second)
		select {
		case <-broken:
			assert.Fail(t, "too early")
		default:
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		select {
		case <-broken:
		default:
			assert.Fail(t, "the connection is kept")
			o.unread()
		}
		o.wait()
	})
}

// More than may wait ends the connection, once, and what waited is dropped.
func TestOutbox_ThatExceedsItsLimitEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken, full := make(chan struct{}), 0
		o := &outbox{what: registry.Outbox{Limit: 10_000}, unread: func() {}, failed: func() {}, full: func() { full++; close(broken) }}
		o.send = func(*wirev1.ServerMessage) error { <-broken; return errors.New("broken") }
		for i := range 1000 {
			o.add(func(what *registry.Outbox) { what.Answer([]registry.Ack{{ID: fmt.Sprint(i)}}, nil, nil) })
			if i == 10 {
				synctest.Wait()
				assert.Zero(t, full)
			}
		}
		o.cut()
		o.wait()
		assert.Equal(t, 1, full)
		assert.Zero(t, o.what)
	})
}

// waitingOutbox returns an outbox whose large messages have to wait, until leave is called.
func waitingOutbox(sent *[]*wirev1.ServerMessage) (o *outbox, leave func()) {
	l := admit.New(0, 1<<20)
	before := l.Join("h", 1<<20)
	o = &outbox{large: l, host: "h", unread: func() {}, failed: func() {}}
	o.send = func(m *wirev1.ServerMessage) error { *sent = append(*sent, m); return nil }
	return o, before.Leave
}

// addLarge adds a push with a list of more than largeSend bytes, and a pong.
func addLarge(t *testing.T, o *outbox, pong uint64) { addList(t, o, 2*largeSend, pong) }

// addList adds a push with a list of so many bytes, and a pong.
func addList(t *testing.T, o *outbox, bytes int, pong uint64) {
	r, now := registry.New(time.Hour, 0, nil), time.Now()
	r.Resize(1, now)
	r.Adopt(0, conclave.Epoch{Term: 1}, "data-1", now)
	const key = "svc#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"
	_, err := r.Subscribe(&registry.Owner{Client: "a", Host: "h"}, &wirev1.Subscription{Id: "s", DataInfoId: key}, now)
	require.NoError(t, err)
	reads, _ := r.TakeReads(0, "data-1", 10, now)
	pushes, counted := r.Fetched(reads, []*wirev1.Fetched{{Datum: &wirev1.Datum{DataInfoId: key, Version: 1, Values: []string{strings.Repeat("v", bytes)}, Publishers: []uint32{1}}}}, now)
	require.True(t, counted)
	o.add(func(what *registry.Outbox) {
		what.Pong = pong
		for _, p := range pushes {
			what.Push(p)
		}
	})
}

// Pongs and other answers do not wait behind lists that wait for their turn.
func TestOutbox_AnswersDoNotWaitForTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []*wirev1.ServerMessage
		o, leave := waitingOutbox(&sent)
		addLarge(t, o, 1)
		synctest.Wait()
		pong(o, 2)
		synctest.Wait()
		time.Sleep(10 * sendLimit) // it is not the client's fault
		pong(o, 3)
		synctest.Wait()
		require.Equal(t, 3, len(sent)) //nolint:testifylint // Len would print the list
		for i, m := range sent {
			assert.EqualValues(t, i+1, m.GetPong())
			assert.Empty(t, m.GetPushes())
		}
		leave()
		synctest.Wait()
		require.Len(t, sent, 4)
		assert.Len(t, sent[3].GetPushes(), 1)
		assert.True(t, o.large.Empty())
	})
}

// Small lists do not wait, nor do those to another address.
func TestOutbox_OthersDoNotWaitForTurns(t *testing.T) {
	for name, list := range map[string]struct {
		host  string
		bytes int
	}{"small": {"h", largeSend / 2}, "another address": {"other", 2 * largeSend}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent []*wirev1.ServerMessage
				o, leave := waitingOutbox(&sent)
				o.host = list.host
				addList(t, o, list.bytes, 0)
				synctest.Wait()
				require.Len(t, sent, 1)
				assert.Len(t, sent[0].GetPushes(), 1)
				leave()
				assert.True(t, o.large.Empty())
			})
		})
	}
}

// A connection that ends does not wait for its turn, nor for others.
func TestOutbox_EndDoesNotWaitForTurns(t *testing.T) {
	for name, end := range map[string]func(*outbox){"cut": (*outbox).cut, "finish": (*outbox).finish} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent []*wirev1.ServerMessage
				o, leave := waitingOutbox(&sent)
				addLarge(t, o, 0)
				synctest.Wait()
				begun := time.Now()
				end(o)
				o.wait()
				assert.Zero(t, time.Since(begun))
				assert.Empty(t, sent)
				leave()
				assert.True(t, o.large.Empty())
			})
		})
	}
}

// A message whose sending panics leaves its turn.
func TestOutbox_PanicLeavesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []*wirev1.ServerMessage
		o, leave := waitingOutbox(&sent)
		leave()
		o.send = func(*wirev1.ServerMessage) error { panic("a defect") }
		before := contain.Count()
		addLarge(t, o, 0)
		o.wait()
		assert.Equal(t, before+1, contain.Count())
		assert.True(t, o.large.Empty())
	})
}
