package session

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"conclave/internal/contain"
	wirev1 "conclave/wire/v1"
)

// A panic in the goroutine that sends ends the connection, and nothing else.
func TestOutbox_PanicEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed, before := 0, contain.Count()
		o := &outbox{unread: func() {}, failed: func() { failed++ }}
		o.send = func(*wirev1.ServerMessage) error { panic("a defect") }
		pong(o, 1)
		synctest.Wait()
		pong(o, 2)
		o.finish()
		o.wait()
		assert.Equal(t, 1, failed)
		assert.Equal(t, before+1, contain.Count())
	})
}

// A panic while what waited is registered ends the stream, also one that waits for
// that.
func TestWaiting_PanicEndsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFullSession(t)
		aborted := 0
		s.conn.abort = func() { aborted++ }
		var many []*wirev1.Publisher
		for i := range 1 + maxWaiting>>10 {
			many = append(many, versions(fmt.Sprint("new ", i), 1)...)
			many[i].Values[0] = strings.Repeat("x", 1<<10)
		}
		read := make(chan bool)
		go func() {
			s.register(t.Context(), s.conn, many)
			read <- true
		}()
		synctest.Wait()
		s.room.limit = 1 << 30
		s.wakeWriters = func() { panic("a defect") }
		s.settle()
		<-read
		assert.Equal(t, 1, aborted)
		s.conn.waiting.serving.Wait()
		s.wakeWriters = func() {}
		s.take(t.Context(), versions("held", 2))
		assert.Contains(t, s.accepted, "held 2", "no lock is held")
	})
}
