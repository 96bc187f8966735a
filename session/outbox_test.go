package session

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave/session/registry"
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
