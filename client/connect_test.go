package client_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
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

// While one session answers, a client that has lost its network is back within half
// of its lease, whatever the others do and however long the network was away, and it
// has left nothing at any other session.
func TestSeek_ASessionThatAnswersIsFoundInTime(t *testing.T) {
	for _, away := range []time.Duration{0, 100 * time.Millisecond, time.Second, 4 * time.Second, 20 * time.Second} {
		for _, others := range []string{"frozen", "cut", "refuse", "gone"} {
			t.Run(fmt.Sprintf("%s, %v", others, away), func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					good, bad := w.session("s1"), []*fakeSession{w.session("s2"), w.session("s3")}
					c := w.client(good)
					ctx, cancel := within(time.Minute)
					defer cancel()
					p := stored(ctx, t, c, "svc", "a")
					good.link().out <- &wirev1.ServerMessage{Sessions: []string{good.address, bad[0].address, bad[1].address}}
					time.Sleep(time.Millisecond)
					refused := []string{"s1", "s2", "s3"}
					for _, name := range refused {
						w.net.ClosePort(name)
					}
					w.net.Reset("app", "s1")
					time.Sleep(away)
					for _, s := range bad {
						switch others {
						case "frozen":
							w.net.Pause(s.name)
							defer w.net.Resume(s.name)
						case "cut":
							w.net.Cut("app", s.name)
						case "refuse":
							s.set(func() { s.refuse = wire.Errorf(wire.CodeUnavailable, "draining") })
						case "gone":
							w.net.Kill(s.name)
						}
					}
					for _, name := range refused {
						w.net.OpenPort(name)
					}
					began := time.Now()
					w.eventually("it is back", func() bool { return good.link() != nil && len(good.link().registered()) == 1 })
					assert.LessOrEqual(t, time.Since(began), 2500*time.Millisecond)
					assert.NoError(t, p.Err())
					time.Sleep(time.Second)
					for _, s := range bad {
						assert.Nil(t, s.link())
					}
				})
			})
		}
	}
}

// A client whose connection was reset is back at its session before that removes
// what it has, although the others are silent or let it wait.
func TestSeek_ComesBackToTheSessionWhoseConnectionBroke(t *testing.T) {
	for _, others := range []string{"frozen", "waits"} {
		bubble(t, func(t *testing.T, w *world) {
			own, bad := w.session("s1"), []*fakeSession{w.session("s2"), w.session("s3")}
			c := w.client(own)
			w.eventually("it is connected", func() bool { return len(c.Connected()) == 1 })
			own.link().out <- &wirev1.ServerMessage{Sessions: []string{own.address, bad[0].address, bad[1].address}}
			time.Sleep(time.Millisecond)
			for _, s := range bad {
				if others == "waits" {
					s.set(func() { s.waits = true })
					continue
				}
				w.net.Pause(s.name)
				defer w.net.Resume(s.name)
			}
			w.net.Reset("app", "s1")
			began := time.Now()
			synctest.Wait()
			w.eventually("it is back", func() bool { return own.link() != nil && len(c.Connected()) == 1 })
			assert.LessOrEqual(t, time.Since(began), 5*time.Second/8)
		})
	}
}

// A session that refuses connections while it restarts is asked again, although
// another one is silent: it is found within half of the lease, however long it was away.
func TestSeek_RefusedSessionIsAskedAgainBesideASilentOne(t *testing.T) {
	for _, away := range []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 600 * time.Millisecond, 2 * time.Second, 3 * time.Second, 7 * time.Second, 20 * time.Second} {
		t.Run(away.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				frozen, restarts := w.session("s1"), w.session("s2")
				w.net.Pause("s1")
				defer w.net.Resume("s1")
				w.net.ClosePort("s2")
				c := w.client(frozen, restarts)
				time.Sleep(away)
				w.net.OpenPort("s2")
				began := time.Now()
				w.eventually("it is connected", func() bool { return len(c.Connected()) == 1 })
				assert.LessOrEqual(t, time.Since(began), 2500*time.Millisecond)
			})
		})
	}
}

// A client that was given one address goes to the others that its session has named, also
// if they did not take it at first: its own session may never come back.
func TestSeek_AsksAgainThoseThatItsSessionHasNamed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		own, other := w.session("s1"), w.session("s2")
		c := w.client(own)
		w.eventually("it is connected", func() bool { return len(c.Connected()) == 1 })
		own.link().out <- &wirev1.ServerMessage{Sessions: []string{own.address, other.address}}
		time.Sleep(time.Millisecond)
		w.net.ClosePort("s2")
		w.net.Kill("s1")
		time.Sleep(10 * time.Second)
		w.net.OpenPort("s2")
		w.eventually("it has gone to the other one", func() bool { return other.link() != nil && len(c.Connected()) == 1 })
	})
}

// A Resolve that hangs keeps neither the sessions that are known waiting nor the log.
func TestSeek_ResolveMayHang(t *testing.T) {
	for _, known := range []bool{true, false} {
		bubble(t, func(t *testing.T, w *world) {
			s := w.session("s1")
			var log lockedLog
			config := client.Config{Network: w.net.Host("app"), Logger: slog.New(slog.NewTextHandler(&log, nil))}
			hangs := make(chan struct{})
			config.Resolve = func(context.Context) ([]string, error) {
				<-hangs
				return []string{s.address}, nil
			}
			if known {
				config.Sessions = []string{s.address}
			}
			c, err := client.New(config)
			require.NoError(t, err)
			c.Start()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			assert.Equal(t, known, len(c.Connected()) == 1)
			assert.Equal(t, !known, strings.Contains(log.String(), "no session reached"), log.String())
			close(hangs)
			synctest.Wait()
			assert.Len(t, c.Connected(), 1)
			require.NoError(t, c.Close(t.Context()))
		})
	}
}

// A client that has lost both sessions during a move, and is welcomed by a third one,
// does not say any more that it reaches none.
func TestMove_ThatLostBothSessionsForgetsTheError(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		from, to, third := w.session("s1"), w.session("s2"), w.session("s3")
		to.set(func() { to.waits = true })
		third.set(func() { third.accept = true })
		w.net.ClosePort("s3")
		c := w.client(third, from)
		w.eventually("it is connected", func() bool { return len(c.Connected()) == 1 })
		from.link().out <- &wirev1.ServerMessage{Sessions: []string{to.address, third.address}, Move: &wirev1.Move{Reason: "drain", To: to.address}}
		w.eventually("it has come", func() bool { return to.link() != nil })
		w.net.Kill("s1")
		w.net.Kill("s2")
		p, err := c.Publish(t.Context(), "svc", nil)
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		ctx, cancel := within(time.Millisecond)
		defer cancel()
		require.ErrorContains(t, p.Stored(ctx), "no session is reached")
		w.net.OpenPort("s3")
		w.eventually("it is at the third", func() bool { return len(c.Connected()) == 1 })
		ctx, cancel = within(time.Millisecond)
		defer cancel()
		assert.NotContains(t, p.Stored(ctx).Error(), "no session is reached")
	})
}

// A client that reaches no session says so within two seconds, and again now and then:
// with the addresses, the error, and what may be wrong.
func TestSeek_ReportsThatNoSessionIsReached(t *testing.T) {
	for want, prepare := range map[string]func(w *world, s *fakeSession){
		"does the cluster run, and at these ports?": func(w *world, _ *fakeSession) { w.net.Kill("s1") },
		"is a process suspended":                    func(w *world, _ *fakeSession) { w.net.Pause("s1") },
		"a session has answered": func(_ *world, s *fakeSession) {
			s.set(func() { s.refuse = wire.Errorf(wire.CodeUnavailable, "draining") })
		},
		"is it the address of a meta or data node?": func(_ *world, s *fakeSession) { s.server.Handler = http.NotFoundHandler() },
	} {
		bubble(t, func(t *testing.T, w *world) {
			s := w.session("s1")
			prepare(w, s)
			var log lockedLog
			c, err := client.New(client.Config{Sessions: []string{s.address}, Network: w.net.Host("app"), Logger: slog.New(slog.NewTextHandler(&log, nil))})
			require.NoError(t, err)
			c.Start()
			p, err := c.Publish(t.Context(), "svc", nil)
			require.NoError(t, err)
			ctx, cancel := within(2 * time.Second)
			defer cancel()
			assert.ErrorContains(t, p.Stored(ctx), "no session is reached: ")
			synctest.Wait()
			assert.Equal(t, 1, strings.Count(log.String(), "level=WARN msg=\"no session reached\" tried=[s1:9603] error="), log.String())
			assert.Contains(t, log.String(), want)
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			assert.Equal(t, 11, strings.Count(log.String(), "no session reached"))
			over, cancel := context.WithCancel(t.Context())
			cancel()
			_ = c.Close(over)
			w.net.Resume("s1")
		})
	}
}

// lockedLog is a log that a test reads while it is written.
type lockedLog struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
