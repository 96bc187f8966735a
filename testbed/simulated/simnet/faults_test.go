package simnet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/simulated/simnet"
)

// world is a network in a bubble with one connection from a to b.
type world struct {
	*simnet.Net
	t         *testing.T
	near, far net.Conn
	ln        net.Listener
}

func in(t *testing.T, play func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{Net: simnet.New(7), t: t}
		w.near, w.far, w.ln = dial(t, w.Net)
		defer w.ln.Close()
		defer w.near.Close()
		defer func() { w.far.Close() }()
		play(t, w)
	})
}

// send writes a word at one end, reads it at the other, and returns how long it
// took.
func (w *world) send(from, to net.Conn, word string) time.Duration {
	w.t.Helper()
	start := time.Now()
	_, err := io.WriteString(from, word)
	require.NoError(w.t, err)
	got := make([]byte, len(word))
	_, err = io.ReadFull(to, got)
	require.NoError(w.t, err)
	require.Equal(w.t, word, string(got))
	return time.Since(start)
}

// receivesNothing checks that nothing arrives at an end for a while.
func (w *world) receivesNothing(c net.Conn, d time.Duration) {
	w.t.Helper()
	require.NoError(w.t, c.SetReadDeadline(time.Now().Add(d)))
	_, err := c.Read(make([]byte, 1))
	assert.ErrorIs(w.t, err, os.ErrDeadlineExceeded)
	require.NoError(w.t, c.SetReadDeadline(time.Time{}))
}

// dial dials b's listener from a and returns how long the answer took.
func (w *world) dial() (time.Duration, error) {
	start := time.Now()
	c, err := w.Host("a").DialContext(w.t.Context(), "tcp", w.ln.Addr().String())
	if err == nil {
		c.Close()
	}
	return time.Since(start), err
}

func TestShape_SpreadIsDrawnFromSeed(t *testing.T) {
	ways := func(seed uint64) (all []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			w := &world{Net: simnet.New(seed), t: t}
			w.Default(simnet.Shape{Latency: time.Millisecond, Spread: time.Millisecond})
			w.near, w.far, w.ln = dial(t, w.Net)
			for range 20 {
				all = append(all, w.send(w.near, w.far, "x"))
			}
			w.near.Close()
			w.far.Close()
			w.ln.Close()
		})
		return all
	}
	one := ways(1)
	assert.Equal(t, one, ways(1), "the same seed gives the same delays")
	assert.NotEqual(t, one, ways(2))
	for _, d := range one {
		assert.True(t, d >= time.Millisecond && d < 2*time.Millisecond, "%v", d)
	}
}

func TestDial_TakesARoundTrip(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.Shape("a", "b", simnet.Shape{Latency: 30 * time.Millisecond})
		w.Shape("b", "a", simnet.Shape{Latency: 10 * time.Millisecond})
		took, err := w.dial()
		assert.NoError(t, err)
		assert.Equal(t, 40*time.Millisecond, took)
		w.Unshape("a", "b")
		took, _ = w.dial()
		assert.Equal(t, 10*time.Millisecond, took)
		w.ln.Close()
		took, err = w.dial()
		assert.ErrorIs(t, err, syscall.ECONNREFUSED)
		assert.Equal(t, 10*time.Millisecond, took, "a refusal takes a round trip too")
	})
}

func TestShape_SpreadKeepsOrder(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.Shape("a", "b", simnet.Shape{Spread: time.Second})
		var want []byte
		for i := range 100 {
			want = append(want, byte(i))
			_, err := w.near.Write([]byte{byte(i)})
			require.NoError(t, err)
			time.Sleep(time.Millisecond)
		}
		w.near.Close()
		got, err := io.ReadAll(w.far)
		assert.NoError(t, err)
		assert.Equal(t, want, got)
	})
}

func TestShape_BandwidthDelaysBytes(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.Shape("a", "b", simnet.Shape{Bandwidth: 1000})
		word := string(make([]byte, 500))
		assert.Equal(t, 500*time.Millisecond, w.send(w.near, w.far, word))
		start := time.Now()
		for range 2 {
			_, err := io.WriteString(w.near, word)
			require.NoError(t, err)
		}
		_, err := io.ReadFull(w.far, make([]byte, 1000))
		require.NoError(t, err)
		assert.Equal(t, time.Second, time.Since(start), "the second write waits for the first")
	})
}

func TestCut_OfOneDirection(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.Cut("a", "b")
		start := time.Now()
		_, err := io.WriteString(w.near, "late")
		require.NoError(t, err, "the sender's kernel buffers it")
		w.receivesNothing(w.far, 5*time.Second)
		assert.Zero(t, w.send(w.far, w.near, "the other direction works"))
		took, err := w.dial()
		var ne net.Error
		require.ErrorAs(t, err, &ne)
		assert.True(t, ne.Timeout())
		assert.False(t, errors.Is(err, syscall.ECONNREFUSED), "no answer is not a refusal")
		assert.Equal(t, time.Second, took)
		w.Heal("a", "b")
		got := make([]byte, 4)
		_, err = io.ReadFull(w.far, got)
		assert.NoError(t, err)
		assert.Equal(t, "late", string(got))
		assert.Equal(t, 6200*time.Millisecond, time.Since(start), "sent again after 0.2, 0.4, 0.8, 1.6 and 3.2 s")
		assert.Zero(t, w.send(w.near, w.far, "without delay again"))
	})
}

func TestCut_OfBothDirections(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.Cut("a", "b")
		w.Cut("b", "a")
		io.WriteString(w.near, "x")
		io.WriteString(w.far, "y")
		w.receivesNothing(w.near, time.Minute)
		w.receivesNothing(w.far, time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := w.Host("a").DialContext(ctx, "tcp", w.ln.Addr().String())
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		w.Heal("a", "b")
		w.Heal("b", "a")
		_, err = w.dial()
		assert.NoError(t, err)
	})
}

func TestKill_DuringCutIsNoticedAfterHeal(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.Cut("b", "a")
		w.Kill("b")
		w.receivesNothing(w.near, 10*time.Second)
		w.Heal("b", "a")
		_, err := w.near.Read(make([]byte, 1))
		assert.ErrorIs(t, err, io.EOF)
	})
}

func TestReset_BreaksBothEnds(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		ended := make(chan error, 1)
		go func() { _, err := w.far.Read(make([]byte, 1)); ended <- err }()
		synctest.Wait()
		w.Reset("b", "a")
		assert.ErrorIs(t, <-ended, syscall.ECONNRESET)
		_, err := w.near.Write([]byte("x"))
		assert.ErrorIs(t, err, syscall.ECONNRESET)
		_, err = w.dial()
		assert.NoError(t, err, "new connections work")
	})
}

func TestHalfOpen_IsNoticedByWriting(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.Shape("b", "a", simnet.Shape{Latency: time.Millisecond})
		w.HalfOpen("a", "b")
		_, err := w.far.Read(make([]byte, 1))
		assert.ErrorIs(t, err, syscall.ECONNRESET)
		w.receivesNothing(w.near, time.Hour)
		_, err = io.WriteString(w.near, "unread")
		assert.NoError(t, err, "a has not been notified")
		_, err = w.near.Read(make([]byte, 1))
		assert.ErrorIs(t, err, syscall.ECONNRESET, "the write was answered with a reset")
		_, err = w.dial()
		assert.NoError(t, err, "new connections work")
	})
}

func TestLoseNext_BreaksConnection(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.LoseNext("b", "a")
		assert.Zero(t, w.send(w.near, w.far, "question"))
		io.WriteString(w.far, "answer")
		_, err := w.near.Read(make([]byte, 1))
		assert.ErrorIs(t, err, syscall.ECONNRESET)
		_, err = w.far.Write([]byte("more"))
		assert.ErrorIs(t, err, syscall.ECONNRESET)
		_, err = w.dial()
		assert.NoError(t, err)
	})
}

func TestFreeze_HoldsReadsWritesAndDials(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.Pause("b")
		assert.NotNil(t, w.Awake("b"))
		io.WriteString(w.near, "question") // the kernel of b accepts it
		io.WriteString(w.far, "answer")    // sent when b is thawed
		got := make(chan string, 1)
		go func() {
			b := make([]byte, 100)
			n, _ := w.far.Read(b)
			got <- string(b[:n])
		}()
		_, err := w.dial()
		assert.NoError(t, err, "the kernel of a frozen process accepts")
		w.receivesNothing(w.near, time.Minute)
		assert.Empty(t, got)
		start := time.Now()
		dialled := make(chan time.Duration, 1)
		go func() {
			c, err := w.Host("b").DialContext(t.Context(), "tcp", w.ln.Addr().String())
			if assert.NoError(t, err) {
				c.Close()
			}
			dialled <- time.Since(start)
		}()
		time.Sleep(time.Second / 2) // within the limit of a dial
		w.Resume("b")
		assert.Nil(t, w.Awake("b"))
		assert.Equal(t, "question", <-got)
		assert.InDelta(t, time.Second/2, <-dialled, float64(time.Microsecond), "it dialled when it was thawed")
		b := make([]byte, 100)
		n, err := w.near.Read(b)
		assert.NoError(t, err)
		assert.Equal(t, "answer", string(b[:n]))
	})
}

func TestKill_OfFrozenProcessDropsItsWrites(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.Pause("b")
		io.WriteString(w.far, "never written")
		w.Kill("b")
		_, err := w.near.Read(make([]byte, 1))
		assert.ErrorIs(t, err, io.EOF)
	})
}

func TestRefuse_UntilAccept(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.ClosePort("b")
		_, err := w.Host("a").DialContext(t.Context(), "tcp", w.ln.Addr().String())
		assert.ErrorIs(t, err, syscall.ECONNREFUSED)
		w.send(w.near, w.far, "the connection stays")
		w.OpenPort("b")
		c, err := w.Host("a").DialContext(t.Context(), "tcp", w.ln.Addr().String())
		require.NoError(t, err)
		c.Close()
	})
}

// Fate is called once for each segment, also for those that never arrive.
func TestFate_OfEachSegment(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		var sent []uint64
		fates := map[uint64][]bool{}
		w.Tap = func(s simnet.Sent) {
			mu.Lock()
			defer mu.Unlock()
			if len(s.Data) > 0 {
				sent = append(sent, s.Segment)
			}
		}
		w.Fate = func(segment uint64, arrived bool) {
			mu.Lock()
			defer mu.Unlock()
			fates[segment] = append(fates[segment], arrived)
		}
		w.Default(simnet.Shape{Latency: time.Millisecond})
		write := func(c net.Conn) {
			_, err := io.WriteString(c, "x")
			require.NoError(t, err)
		}
		write(w.near) // these two travel together
		write(w.near)
		time.Sleep(10 * time.Millisecond)
		w.LoseNext("b", "a")
		write(w.near) // this one is in flight when the connection breaks
		write(w.far)  // and this one breaks it
		synctest.Wait()

		mu.Lock()
		defer mu.Unlock()
		require.Len(t, sent, 4)
		assert.Equal(t, sent[0], sent[1])
		assert.Equal(t, []bool{true}, fates[sent[0]])
		assert.Equal(t, []bool{false}, fates[sent[2]])
		assert.Equal(t, []bool{false}, fates[sent[3]])
	})
}

// A segment whose reader is killed before it arrives is lost.
func TestFate_OfASegmentToAKilledProcess(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		var last uint64
		fates := map[uint64]bool{}
		w.Tap = func(s simnet.Sent) {
			mu.Lock()
			defer mu.Unlock()
			if len(s.Data) > 0 {
				last = s.Segment
			}
		}
		w.Fate = func(segment uint64, arrived bool) {
			mu.Lock()
			defer mu.Unlock()
			fates[segment] = arrived
		}
		w.Default(simnet.Shape{Latency: time.Millisecond})
		_, err := io.WriteString(w.near, "x")
		require.NoError(t, err)
		w.Kill("b")
		time.Sleep(10 * time.Millisecond)

		mu.Lock()
		defer mu.Unlock()
		arrived, known := fates[last]
		assert.True(t, known)
		assert.False(t, arrived)
	})
}
