package simnet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/sim/simnet"
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

// send writes a word at one end and reads it at the other, and says how long it
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

// silent checks that nothing arrives at an end for a while.
func (w *world) silent(c net.Conn, d time.Duration) {
	w.t.Helper()
	require.NoError(w.t, c.SetReadDeadline(time.Now().Add(d)))
	_, err := c.Read(make([]byte, 1))
	assert.ErrorIs(w.t, err, os.ErrDeadlineExceeded)
	require.NoError(w.t, c.SetReadDeadline(time.Time{}))
}

// dial dials b's listener from a and says how long the answer took.
func (w *world) dial() (time.Duration, error) {
	start := time.Now()
	c, err := w.Host("a").DialContext(w.t.Context(), "tcp", w.ln.Addr().String())
	if err == nil {
		c.Close()
	}
	return time.Since(start), err
}

func TestLatencyIsSpreadBySeed(t *testing.T) {
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
	assert.Equal(t, one, ways(1), "one seed, one link, one row of draws")
	assert.NotEqual(t, one, ways(2))
	for _, d := range one {
		assert.True(t, d >= time.Millisecond && d < 2*time.Millisecond, "%v", d)
	}
}

func TestADialTakesARoundTrip(t *testing.T) {
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
		assert.Equal(t, 10*time.Millisecond, took, "a refusal has to travel, too")
	})
}

func TestBytesKeepTheirOrderUnderSpread(t *testing.T) {
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

func TestBandwidth(t *testing.T) {
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
		assert.Equal(t, time.Second, time.Since(start), "one after the other")
	})
}

func TestLossIsTime(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.Shape("a", "b", simnet.Shape{Loss: 0.5})
		var late int
		for range 100 {
			if d := w.send(w.near, w.far, "x"); d > 0 {
				late++
				assert.GreaterOrEqual(t, d, 200*time.Millisecond, "after a lost piece the sender waits for its timer")
			}
		}
		assert.InDelta(t, 50, late, 20)
	})
}

func TestACutInOneDirection(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.Cut("a", "b")
		start := time.Now()
		_, err := io.WriteString(w.near, "late")
		require.NoError(t, err, "the kernel takes it")
		w.silent(w.far, 5*time.Second)
		assert.Zero(t, w.send(w.far, w.near, "the other way works"))
		took, err := w.dial()
		var ne net.Error
		require.ErrorAs(t, err, &ne)
		assert.True(t, ne.Timeout())
		assert.False(t, errors.Is(err, syscall.ECONNREFUSED), "silence is no refusal")
		assert.Equal(t, time.Second, took)
		w.Heal("a", "b")
		got := make([]byte, 4)
		_, err = io.ReadFull(w.far, got)
		assert.NoError(t, err)
		assert.Equal(t, "late", string(got))
		assert.Equal(t, 6200*time.Millisecond, time.Since(start), "sent again after 0.2, 0.4, 0.8, 1.6 and 3.2 s")
		assert.Zero(t, w.send(w.near, w.far, "and then as ever"))
	})
}

func TestACutInBothDirections(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.Cut("a", "b")
		w.Cut("b", "a")
		io.WriteString(w.near, "x")
		io.WriteString(w.far, "y")
		w.silent(w.near, time.Minute)
		w.silent(w.far, time.Minute)
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

func TestAKillBehindACutIsHeardAfterwards(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.Cut("b", "a")
		w.Kill("b")
		w.silent(w.near, 10*time.Second)
		w.Heal("b", "a")
		_, err := w.near.Read(make([]byte, 1))
		assert.ErrorIs(t, err, io.EOF)
	})
}

func TestResetIsKnownAtBothEnds(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		ended := make(chan error, 1)
		go func() { _, err := w.far.Read(make([]byte, 1)); ended <- err }()
		synctest.Wait()
		assert.Equal(t, 1, w.Reset("b", "a"))
		assert.ErrorIs(t, <-ended, syscall.ECONNRESET)
		_, err := w.near.Write([]byte("x"))
		assert.ErrorIs(t, err, syscall.ECONNRESET)
		_, err = w.dial()
		assert.NoError(t, err, "the hosts are well")
		w.near.Close()
		w.far.Close()
		assert.Zero(t, w.Connections("a"))
	})
}

func TestAHalfOpenConnection(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.Shape("b", "a", simnet.Shape{Latency: time.Millisecond})
		assert.Equal(t, 1, w.HalfOpen("a", "b"))
		_, err := w.far.Read(make([]byte, 1))
		assert.ErrorIs(t, err, syscall.ECONNRESET)
		w.silent(w.near, time.Hour)
		_, err = io.WriteString(w.near, "anyone?")
		assert.NoError(t, err, "it is not told")
		_, err = w.near.Read(make([]byte, 1))
		assert.ErrorIs(t, err, syscall.ECONNRESET, "now it is")
		_, err = w.dial()
		assert.NoError(t, err, "new connections work")
	})
}

func TestAnAnswerIsLost(t *testing.T) {
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

func TestAHostWithoutPower(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.PowerOff("b")
		w.silent(w.near, 10*time.Second)
		took, err := w.dial()
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.Equal(t, time.Second, took)
		_, err = w.far.Read(make([]byte, 1))
		assert.Error(t, err, "who was on the host is gone with it")
		io.WriteString(w.near, "anyone?")
		w.PowerOn("b")
		_, err = w.dial()
		assert.ErrorIs(t, err, syscall.ECONNREFUSED, "the host is back, its process is not")
		_, err = w.near.Read(make([]byte, 1))
		assert.ErrorIs(t, err, syscall.ECONNRESET, "it knows nothing of the old connection")
	})
}

func TestAFrozenHost(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.Freeze("b")
		assert.NotNil(t, w.Awake("b"))
		io.WriteString(w.near, "question") // the kernel of b has it
		io.WriteString(w.far, "answer")    // what b would do, if it could
		got := make(chan string, 1)
		go func() {
			b := make([]byte, 100)
			n, _ := w.far.Read(b)
			got <- string(b[:n])
		}()
		_, err := w.dial()
		assert.NoError(t, err, "a frozen process's kernel accepts")
		w.silent(w.near, time.Minute)
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
		w.Thaw("b")
		assert.Nil(t, w.Awake("b"))
		assert.Equal(t, "question", <-got)
		assert.InDelta(t, time.Second/2, <-dialled, float64(time.Microsecond), "it dialled when it thawed")
		b := make([]byte, 100)
		n, err := w.near.Read(b)
		assert.NoError(t, err)
		assert.Equal(t, "answer", string(b[:n]))
	})
}

func TestAFrozenProcessThatIsKilledSaysNothingMore(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.Freeze("b")
		io.WriteString(w.far, "never written")
		w.Kill("b")
		_, err := w.near.Read(make([]byte, 1))
		assert.ErrorIs(t, err, io.EOF)
	})
}

func TestRefuse_UntilAccept(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.Refuse("b")
		_, err := w.Host("a").DialContext(t.Context(), "tcp", w.ln.Addr().String())
		assert.ErrorIs(t, err, syscall.ECONNREFUSED)
		w.send(w.near, w.far, "the connection stays")
		w.Accept("b")
		c, err := w.Host("a").DialContext(t.Context(), "tcp", w.ln.Addr().String())
		require.NoError(t, err)
		c.Close()
	})
}
