package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"conclave"
	"conclave/client"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

func within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

// stored publishes and waits until data has it.
func stored(ctx context.Context, t *testing.T, c *client.Client, dataID string, values ...string) *client.Publication {
	t.Helper()
	p, err := c.Publish(ctx, dataID, values)
	require.NoError(t, err)
	require.NoError(t, p.Stored(ctx))
	return p
}

func TestConfigIsChecked(t *testing.T) {
	for want, c := range map[string]client.Config{
		"no session address": {},
		"nowhere":            {Sessions: []string{"nowhere"}},
	} {
		_, err := client.New(c)
		assert.ErrorContains(t, err, want)
	}
}

// Invalid input is refused before anything is sent, with the reason, and
// changes nothing.
func TestBadInputIsRefusedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := w.session("s1")
		c := w.client(s)
		for dataID, want := range map[string]string{"": "empty", "a=b": "'='", strings.Repeat("x", 256): "255", "a\nb": "control"} {
			_, err := c.Publish(t.Context(), dataID, nil)
			assert.ErrorContains(t, err, want)
			_, err = c.Subscribe(dataID)
			assert.ErrorContains(t, err, want)
		}
		_, err := c.Publish(t.Context(), "svc", nil, client.Group(strings.Repeat("g", 300)))
		assert.ErrorContains(t, err, "group")
		_, err = c.Publish(t.Context(), "svc", []string{strings.Repeat("x", conclave.MaxValue+1)})
		assert.ErrorContains(t, err, "65537")
		p, err := c.Publish(t.Context(), "svc", []string{"good"})
		require.NoError(t, err)
		assert.ErrorContains(t, p.Update([]string{strings.Repeat("x", conclave.MaxValue+1)}), "65537")
		over, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = c.Publish(over, "svc", nil)
		require.ErrorIs(t, err, context.Canceled)
		w.eventually("the good one is registered", func() bool { return s.link() != nil && len(s.link().registered()) == 1 })
		time.Sleep(time.Second)
		assert.Equal(t, []string{"good"}, s.link().registered()[p.ID()].GetValues())
		assert.EqualValues(t, 1, p.Version())
	})
}

// A refusal becomes the error of its publication, and of no other.
func TestRefusalIsAnErrorAtItsPublication(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := w.session("s1")
		c := w.client(s)
		first, err := c.Publish(t.Context(), "first", nil)
		require.NoError(t, err)
		ctx, cancel := within(time.Second)
		defer cancel()
		require.NoError(t, first.Stored(ctx))
		s.set(func() {
			s.check = func(id string) *wirev1.Refusal {
				return &wirev1.Refusal{Id: id, Code: "unauthorized", Message: "no token"}
			}
		})
		second, err := c.Publish(t.Context(), "second", nil)
		require.NoError(t, err)
		err = second.Stored(ctx)
		assert.Equal(t, wire.CodeUnauthorized, wire.CodeOf(err))
		assert.ErrorContains(t, err, "no token")
		require.NoError(t, first.Err())
		require.Error(t, second.Withdraw())
	})
}

// While no session accepts it, the client retries for ever: the first time at
// once, then after 20 ms up to 2 s.
func TestAttemptsSlowDown(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := w.session("s1")
		s.set(func() { s.refuse = wire.Errorf(wire.CodeUnavailable, "draining") })
		w.client(s)
		time.Sleep(100 * time.Millisecond)
		early := s.attempts()
		assert.Greater(t, early, 2)
		time.Sleep(time.Minute)
		late := s.attempts() - early
		assert.Greater(t, late, 30)
		assert.Less(t, late, 70)
		s.set(func() { s.refuse = nil })
		time.Sleep(2 * time.Second)
		assert.NotNil(t, s.link())
	})
}

// A client leaves a session that is silent for too long.
func TestSilentSessionIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		one, two := w.session("s1"), w.session("s2")
		c := w.client(one, two)
		w.eventually("connected", func() bool { return len(c.Connected()) == 1 })
		silent, other := one, two
		if c.Connected()[0].Name == "s2" {
			silent, other = two, one
		}
		silent.set(func() { silent.silent = true })
		start := time.Now()
		w.eventually("at the other one", func() bool { return other.link() != nil })
		assert.Less(t, time.Since(start), 4*time.Second)
		assert.EqualValues(t, 1, c.Lost())
	})
}

// The channel holds the newest push only, and a reader that never reads blocks
// nothing; a slow callback delays no other, and gets the newest push next.
func TestPushesAreNewestWins(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := w.session("s1")
		c := w.client(s)
		unread, err := c.Subscribe("svc")
		require.NoError(t, err)
		var mu sync.Mutex
		var slow, quick []int64
		_, err = c.Subscribe("svc", client.OnPush(func(d conclave.Datum) {
			mu.Lock()
			slow = append(slow, d.Version)
			mu.Unlock()
			time.Sleep(time.Second)
		}))
		require.NoError(t, err)
		_, err = c.Subscribe("svc", client.OnPush(func(d conclave.Datum) {
			mu.Lock()
			quick = append(quick, d.Version)
			mu.Unlock()
		}))
		require.NoError(t, err)
		w.eventually("all are subscribed", func() bool { return s.link() != nil && len(s.link().subscriptions()) == 3 })
		for v := range int64(10) {
			s.link().push("svc", v+1, fmt.Sprint(v))
			time.Sleep(10 * time.Millisecond)
		}
		s.link().push("svc", 3, "an old value")
		time.Sleep(3 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, []int64{1, 10}, slow)
		assert.Equal(t, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, quick)
		assert.EqualValues(t, 10, (<-unread.C()).Version)
		last, ok := unread.Last()
		assert.True(t, ok)
		assert.Equal(t, []string{"9"}, last.Values)
		unread.Close()
		_, open := <-unread.C()
		assert.False(t, open)
		w.eventually("the session gets the unsubscription", func() bool {
			for _, m := range s.link().messages() {
				if len(m.GetUnsubscribe()) == 1 {
					return true
				}
			}
			return false
		})
	})
}

// OnChange has what has changed since it was last called, whatever was pushed meanwhile.
func TestOnChange_HasTheChangeSinceTheLastCall(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := w.session("s1")
		calls := make(chan client.Change, 10)
		_, err := w.client(s).Subscribe("svc", client.OnChange(func(c client.Change) {
			calls <- c
			time.Sleep(time.Second)
		}))
		require.NoError(t, err)
		w.eventually("it is subscribed", func() bool { return s.link() != nil && len(s.link().subscriptions()) == 1 })
		s.link().push("svc", 1, "a", "b", "b", "c")
		time.Sleep(time.Millisecond)
		s.link().push("svc", 2, "b", "x")
		s.link().push("svc", 3, "a", "b", "c", "d")
		time.Sleep(3 * time.Second)
		svc, err := conclave.NewDataInfoID("svc", "", "")
		require.NoError(t, err)
		assert.Equal(t, client.Change{Data: svc, Version: 1, Added: []string{"a", "b", "b", "c"}}, <-calls)
		assert.Equal(t, client.Change{Data: svc, Version: 3, Added: []string{"d"}, Removed: []string{"b"}}, <-calls)
		assert.Empty(t, calls)
	})
}

// What OnChange was given makes the list of the session, however it arrived and however
// slow the application is.
func TestOnChange_AddsUpToTheList(t *testing.T) {
	for seed := range uint64(20) {
		bubble(t, func(t *testing.T, w *world) {
			r := rand.New(rand.NewPCG(seed, 0))
			s := w.session("s1")
			var last int64
			has := map[string]int{}
			sub, err := w.client(s).Subscribe("svc", client.OnChange(func(c client.Change) {
				last = c.Version
				for _, v := range c.Removed {
					has[v]--
				}
				for _, v := range c.Added {
					has[v]++
				}
				time.Sleep(time.Duration(c.Version%7*c.Version%400) * time.Millisecond)
			}))
			require.NoError(t, err)
			w.eventually("it is subscribed", func() bool { return s.link() != nil && len(s.link().subscriptions()) == 1 })
			at := s.link()
			var values []string
			for i := range 60 {
				values = append(values, fmt.Sprint("a value of some length ", i%50))
			}
			at.push("svc", 1, values...)
			for version := int64(2); version < 200; version++ {
				next := slices.Clone(values)
				for range 1 + r.IntN(3) {
					next[r.IntN(len(next))] = fmt.Sprint("a value of some length ", r.IntN(100))
				}
				if r.IntN(5) == 0 {
					next = append(next, "one more")
				}
				if r.IntN(50) == 0 {
					at.push("svc", version, next...)
				} else {
					at.delta(t, version-1, version, values, next)
				}
				values = next
				time.Sleep(time.Millisecond)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			got, _ := sub.Last()
			assert.Equal(t, values, got.Values)
			assert.EqualValues(t, 199, last)
			for _, v := range values {
				has[v]--
			}
			for v, n := range has {
				assert.Zero(t, n, v)
			}
		})
	}
}

// An application that closes tens of thousands of subscriptions and watches at once
// sends them in messages that are bounded, and what it watches again stays watched.
func TestLink_MessagesAreBoundedWhateverIsClosed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := w.session("s1")
		c := w.client(s)
		const many = 20_000
		name := func(i int) string { return fmt.Sprintf("%d-%s", i, strings.Repeat("x", 50)) }
		subs, watches := make([]*client.Subscription, many), make([]*client.Watch, 200)
		for i := range subs {
			var err error
			subs[i], err = c.Subscribe("svc")
			require.NoError(t, err)
		}
		for i := range watches {
			var err error
			watches[i], err = c.Watch(name(i))
			require.NoError(t, err)
		}
		w.eventually("all are subscribed", func() bool { return s.link() != nil && len(s.link().subscriptions()) == many })
		for _, sub := range subs {
			sub.Close()
		}
		for _, watch := range watches {
			watch.Close()
		}
		again, err := c.Watch(name(7))
		require.NoError(t, err)
		defer again.Close()
		var unsubscribed, unwatched map[string]bool
		var watched map[string]bool
		w.eventually("all are closed", func() bool {
			unsubscribed, unwatched, watched = map[string]bool{}, map[string]bool{}, map[string]bool{}
			for _, m := range s.link().messages() {
				assert.Less(t, proto.Size(m), 2*64<<10)
				for _, id := range m.GetUnsubscribe() {
					unsubscribed[id] = true
				}
				for _, id := range m.GetUnwatch() {
					unwatched[id] = true
					delete(watched, id)
				}
				for _, id := range m.GetWatch() {
					watched[id] = true
				}
			}
			return len(unsubscribed) == many && len(unwatched) == len(watches)
		})
		assert.Len(t, watched, 1, "the one that is watched again")
	})
}

// A cluster whose versions are lower than the client's (it was created again)
// refuses the subscription; the client subscribes from zero, and the next push
// is taken.
func TestVersionTooHighStartsAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		one, two := w.session("s1"), w.session("s2")
		c := w.client(one)
		sub := w.subscribed(c, one)
		one.link().push("svc", 1<<52+5, "a")
		assert.EqualValues(t, 1<<52+5, (<-sub.C()).Version)
		once := true
		two.set(func() {
			two.check = func(id string) *wirev1.Refusal {
				if !once {
					return nil
				}
				once = false
				return &wirev1.Refusal{Id: id, Code: "bad_request", Message: "version too high"}
			}
		})
		one.link().out <- &wirev1.ServerMessage{Sessions: []string{two.address}}
		time.Sleep(time.Millisecond)
		w.net.Kill("s1")
		w.eventually("subscribed again", func() bool { return two.link() != nil && len(two.link().subscriptions()) == 2 })
		assert.Zero(t, two.link().subscriptions()[1].GetVersion())
		two.link().push("svc", 3, "b")
		assert.EqualValues(t, 3, (<-sub.C()).Version)
	})
}

// Close withdraws, waits until that is stored, and says good-bye.
func TestCloseWithdrawsAndSaysGoodbye(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := w.session("s1")
		c := w.client(s)
		ctx, cancel := within(time.Second)
		defer cancel()
		p := stored(ctx, t, c, "svc", "a")
		l := s.link()
		require.NoError(t, c.Close(ctx))
		assert.True(t, l.registered()[p.ID()].GetWithdrawn())
		assert.EqualValues(t, 2, l.registered()[p.ID()].GetVersion())
		all := l.messages()
		assert.True(t, all[len(all)-1].GetGoodbye())
		require.NoError(t, c.Close(ctx), "closing again is harmless")
		assert.Zero(t, c.Lost(), "a good-bye is no loss")
		_, err := c.Publish(ctx, "svc", nil)
		require.ErrorIs(t, err, client.ErrClosed)
		_, err = c.Subscribe("svc")
		require.ErrorIs(t, err, client.ErrClosed)
	})
}

// Close without a reachable session ends with its context, and returns an
// error.
func TestCloseWithoutASession(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := w.session("s1")
		c := w.client(s)
		ctx, cancel := within(time.Second)
		defer cancel()
		stored(ctx, t, c, "svc", "a")
		w.net.Kill("s1")
		err := c.Close(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "not everything is known to be withdrawn")
	})
}

// A session may make a client wait for its welcome. Close does not wait for that,
// neither for the first session nor for one that the client was asked to move to.
func TestClose_EndsAtOnceWhileASessionMakesItWait(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := w.session("s1")
		s.set(func() { s.waits = true })
		c := w.client(s)
		w.eventually("it waits", func() bool { return s.link() != nil })
		began := time.Now()
		require.NoError(t, c.Close(t.Context()))
		assert.Zero(t, time.Since(began))

		from := w.session("s2")
		moving := w.client(from)
		w.eventually("it is connected", func() bool { return len(moving.Connected()) == 1 })
		from.link().out <- &wirev1.ServerMessage{Sessions: []string{s.address}, Move: &wirev1.Move{Reason: "drain"}}
		w.eventually("it waits", func() bool { return s.link() != nil })
		began = time.Now()
		require.NoError(t, moving.Close(t.Context()))
		assert.Zero(t, time.Since(began))
	})
}

// A client that was never started, or whose context ends, says no good-bye.
func TestRunEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := w.session("s1")
		c, err := client.New(client.Config{Sessions: []string{s.address}, Network: w.net.Host("app")})
		require.NoError(t, err)
		p, err := c.Publish(t.Context(), "svc", nil)
		require.NoError(t, err)
		ctx, cancel := within(time.Second)
		defer cancel()
		require.ErrorIs(t, c.Run(ctx), context.DeadlineExceeded)
		require.NoError(t, p.Stored(t.Context()))
		s.set(func() {
			for _, m := range s.links[0].messages() {
				assert.False(t, m.GetGoodbye())
			}
		})
		require.NoError(t, c.Close(t.Context()))

		idle, err := client.New(client.Config{Sessions: []string{s.address}, Network: w.net.Host("app")})
		require.NoError(t, err)
		p, err = idle.Publish(t.Context(), "svc", nil)
		require.NoError(t, err)
		ctx, cancel = within(time.Second)
		defer cancel()
		require.ErrorContains(t, p.Stored(ctx), "svc is not stored yet: context deadline exceeded (the client was not started: call Start or Run)")
		require.NoError(t, idle.Close(t.Context()))
	})
}

// Addresses may come from a function, which is called again when they do not
// work.
func TestResolve(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := w.session("s1")
		asked := 0
		c := w.configured(client.Config{Resolve: func(context.Context) ([]string, error) {
			asked++
			switch asked {
			case 1:
				return nil, errors.New("not now")
			case 2:
				return []string{"gone:1"}, nil
			}
			return []string{s.address}, nil
		}})
		w.eventually("connected", func() bool { return len(c.Connected()) == 1 })
		assert.Equal(t, 3, asked)
	})
}

// Ten thousand publications are sent in few messages, none above a megabyte.
// All are made before the session takes the client: how many gather while
// another message is being sent depends on the machine.
func TestManyPublicationsAreBatched(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := w.session("s1")
		s.set(func() { s.refuse = errors.New("not yet") })
		c := w.client(s)
		ctx, cancel := within(time.Minute)
		defer cancel()
		var last *client.Publication
		for i := range 10_000 {
			p, err := c.Publish(ctx, fmt.Sprint("svc-", i), []string{strings.Repeat("x", 100)})
			require.NoError(t, err)
			last = p
		}
		for range 20 {
			_, err := c.Publish(ctx, "large", []string{strings.Repeat("x", conclave.MaxValue)})
			require.NoError(t, err)
		}
		s.set(func() { s.refuse = nil })
		require.NoError(t, last.Stored(ctx))
		w.eventually("all are there", func() bool { return len(s.link().registered()) == 10_020 })
		for _, m := range s.link().messages() {
			assert.LessOrEqual(t, proto.Size(m), 1<<20)
		}
		assert.Less(t, len(s.link().messages()), 100)
	})
}
