package playground

import (
	"context"
	"fmt"
	"hash/fnv"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	_ "conclave/internal/bubble"
	"conclave/internal/trace"
	"conclave/testbed/console"
	"conclave/testbed/simulated"
	"conclave/testbed/simulated/simnet"
)

// running is a world that runs, and a list of what was sent.
type running struct {
	*World
	idle chan struct{}
	end  func()

	mu   sync.Mutex // guards the rest
	sent []string
	at   int // the length of sent when time stood still
	stop int // at so many messages it pauses
}

// run begins a world, and waits until its moment.
func run(t *testing.T, start string) *running {
	t.Helper()
	s, err := ParseStart(start)
	require.NoError(t, err)
	cryptotest.SetGlobalRandom(t, s.Seed)
	r := &running{World: New(s, func(f func()) { synctest.Test(t, func(*testing.T) { f() }) }), idle: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	r.World.idle = func() {
		select {
		case r.idle <- struct{}{}:
		case <-ctx.Done():
		}
	}
	r.tap = func(x simnet.Sent) {
		r.mu.Lock()
		defer r.mu.Unlock()
		h := fnv.New32()
		_, _ = h.Write(x.Data)
		r.sent = append(r.sent, fmt.Sprintf("%d %s > %s %s %d %x", time.Now().UnixNano(), x.From, x.To, x.What, len(x.Data), h.Sum32()))
		if len(r.sent) == r.stop {
			r.World.mu.Lock() // SetPace would wait for this message
			r.pace.Paused = true
			r.World.mu.Unlock()
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		assert.NoError(t, r.Run(ctx, console.NewHub()))
	}()
	r.end = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(r.end)
	r.await()
	return r
}

// await waits until time is stopped. It uses no timer, which would let goroutines of the
// bubble run in another order.
func (r *running) await() Pace {
	for {
		<-r.idle
		if p := r.Pace(); p.Paused && p.Step == "" { // and not the one before
			r.mu.Lock()
			defer r.mu.Unlock()
			r.at = len(r.sent)
			return p
		}
	}
}

// stopAfter makes it pause when so many more messages were sent.
func (r *running) stopAfter(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stop = len(r.sent) + n
}

// to asks for a step, and returns what it has led to.
func (r *running) to(t *testing.T, goal Goal) string {
	require.NoError(t, r.SetPace(Pace{Speed: 1, Step: goal}))
	return r.await().Reached
}

// leader returns the node that leads.
func (r *running) leader(t *testing.T) (name string) {
	r.in(func(b *inside) { name = b.cluster.Observe(t.Context()).Leader })
	require.NotEmpty(t, name)
	return name
}

func TestStep_StopsAtTheNextElection(t *testing.T) {
	r := run(t, "1~0.001")
	assert.Regexp(t, `^\d\.\d+ s: meta-\d leads term 1$`, r.to(t, Election))
	assert.Regexp(t, ` s: \S+ to \S+: .`, r.to(t, Message))
	assert.Error(t, r.SetPace(Pace{Speed: 1, Step: "lunch"}))
	assert.Error(t, r.SetPace(Pace{Speed: 1, Step: moment}))
}

func TestPause_StandsStill(t *testing.T) {
	r := run(t, "1~8")
	assert.InDelta(t, 8000, r.Pace().AtMs, 0)
	time.Sleep(50 * time.Millisecond)
	assert.InDelta(t, 8000, r.Pace().AtMs, 0)
	r.stopAfter(100)
	require.NoError(t, r.SetPace(Pace{Speed: 100}))
	assert.Greater(t, r.await().AtMs, 8000.)
	require.NoError(t, r.SetPace(Pace{Speed: Fast}))
	require.NoError(t, r.SetPace(Pace{Speed: 1, Paused: true}))
	at := r.Pace().AtMs
	time.Sleep(50 * time.Millisecond)
	assert.InDelta(t, at, r.Pace().AtMs, 0)
	assert.Error(t, r.SetPace(Pace{Speed: -1}))
}

// A page that is hidden, or whose viewer chooses a speed, still shows the moment of its address.
func TestSetPace_LeavesTheMomentOfTheStart(t *testing.T) {
	s, err := ParseStart("1~5*kill*meta-1~8")
	require.NoError(t, err)
	w := New(s, nil)
	for _, change := range []Pace{{Speed: 2}, {Speed: 4, Paused: true}} {
		require.NoError(t, w.SetPace(change))
		p := w.Pace()
		assert.Equal(t, Pace{Speed: change.Speed, Paused: true, Step: moment, Start: "1~5*kill*meta-1~8", HeapMiB: p.HeapMiB}, p)
	}
	require.NoError(t, w.SetPace(Pace{Speed: 1, Step: Message}))
	assert.Equal(t, "1~5*kill*meta-1~5", w.Pace().Start, "its moment is left, its acts are still to be done")
}

func TestAct_KillOfTheLeaderLeadsToTheNextTerm(t *testing.T) {
	r := run(t, "1~8")
	kill := console.Request{Do: "kill", Node: r.leader(t)}
	says, err := r.Explain(t.Context(), kill)
	require.NoError(t, err)
	assert.Contains(t, says, "It leads term 1: another meta takes over as term 2.")
	require.NoError(t, r.Act(t.Context(), kill))
	assert.Contains(t, r.to(t, Election), "leads term 2")
	links, err := r.Why(t.Context(), console.Request{})
	require.NoError(t, err)
	assert.Regexp(t, `^meta-\d becomes the leader of term 2$`, links[0].What)
	assert.Equal(t, "done to the cluster: kill "+kill.Node, links[len(links)-1].What)
	assert.InDelta(t, 8*time.Second, links[len(links)-1].At, float64(10*time.Millisecond))
	assert.Contains(t, r.to(t, Violation), "no violation within")
	assert.Contains(t, r.Pace().Start, "1~8*kill*meta-")
	assert.Error(t, r.Act(t.Context(), console.Request{Do: "kill", Node: "no word"}))
}

// TestStep_StopsAtABrokenPromise adds the event of a second leader of a term.
func TestStep_StopsAtABrokenPromise(t *testing.T) {
	r := run(t, "1~8")
	r.in(func(b *inside) {
		b.claim(trace.Claim{Kind: trace.Led, Node: conclave.NodeID{Name: "meta-9", Incarnation: "i"}, Term: 1, Until: time.Now().Add(time.Minute)})
	})
	assert.Regexp(t, `^\d+\.?\d* s: I\d+: .*meta-9`, r.to(t, Violation))
	links, err := r.Why(t.Context(), console.Request{})
	require.NoError(t, err)
	assert.Contains(t, links[0].What, "meta-9")
	assert.Equal(t, "meta-9 becomes the leader of term 1; nothing reached meta-9 at that instant", links[1].What)
}

// guardOut is the start of the tour's last step. A write of the leader waits at the database
// while the leader is cut off; another node leads, and the write is executed.
const guardOut = "%s~8*hold*leader*landing~8*kill*data-1~13*isolate*leader~13*hold*meta-1*writing~13*hold*meta-2*writing~13*hold*meta-3*writing~20*heal~24"

func TestWithout_WriteThatAsksNoOwnerBreaksAPromise(t *testing.T) {
	r := run(t, "1~6")
	require.NoError(t, r.Act(t.Context(), console.Request{Do: without, Value: "write"}))
	taken, moment, _ := strings.Cut(r.Pace().Start, "write")
	require.Equal(t, "~6", moment)
	r.end()
	r = run(t, fmt.Sprintf(guardOut, taken+"write")) // the address that the first page had
	r.in(func(b *inside) {
		broken := b.source.Broken()
		require.NotNil(t, broken)
		assert.Regexp(t, `^I3 a write of meta-\d to 1\.\d is executed while "meta-\d" owns the lock row, in term 2$`, broken.ID+" "+broken.What)
	})
	links, err := r.Why(t.Context(), console.Request{})
	require.NoError(t, err)
	assert.Equal(t, 20*time.Second, links[0].At, "when the hold ended, to the nanosecond")
	assert.Regexp(t, `^\[   20.000s I3: a write [^]]* release meta-\d at landing [^]]* 8.000s done to the cluster: hold meta-\d at landing *6.000s done to the cluster: take out the guard of writes\]$`, fmt.Sprint(links))
	r.end()
	r = run(t, fmt.Sprintf(guardOut, "1"))
	assert.Contains(t, r.to(t, Violation), "no violation")
	for _, wrong := range []console.Request{{Do: without, Value: "lunch"}, {Do: "hold", Node: "meta-1", Peer: "lunch"}, {Do: "hold", Node: "meta-1", Peer: "landing", Value: "x"}, {Do: "hold", Node: "lunch", Peer: "landing"}} {
		assert.Error(t, r.Act(t.Context(), wrong))
	}
}

// A scenario holds nodes, too, and expects what only their events tell. A hold ends with its
// process.
func TestHold_OfAScenarioAndOfAViewer(t *testing.T) {
	r := run(t, "1~7*scenario***f04-held-before-the-write~50")
	r.in(func(b *inside) {
		id, failed := b.source.Violation(b.began)
		assert.Empty(t, id+failed.What)
	})
	leader := r.leader(t)
	for _, q := range []console.Request{{Do: "hold", Node: leader, Peer: "renewing"}, {Do: "kill", Node: leader}} {
		require.NoError(t, r.Act(t.Context(), q))
	}
	r.in(func(b *inside) {
		done := ""
		for _, e := range b.source.History().Entries {
			if e.Fault != nil {
				done += e.Fault.Action.String() + "; "
			}
		}
		assert.Regexp(t, `^kill data-1; hold (L|meta-\d) at writing; .*release (L|meta-\d) at writing; .*hold L at renewing; kill L; release L at renewing; $`, strings.ReplaceAll(done, leader, "L"))
	})
}

// A scenario that fails while every promise holds: no meta may take over in it.
func TestWhy_OfAScenarioThatFails(t *testing.T) {
	r := run(t, "1~7*hold*meta-1*swapping~7*hold*meta-2*swapping~7*hold*meta-3*swapping~7*scenario***f01-kill-the-leader~62")
	links, err := r.Why(t.Context(), console.Request{})
	require.NoError(t, err)
	assert.Regexp(t, `^\[ *\d+\.\d+s f01-kill-the-leader: line \d+: expect new leader [^]]* done to the cluster: `, fmt.Sprint(links))
}

// TestOneStartOneState plays a run with acts and steps, and then its start.
func TestOneStartOneState(t *testing.T) {
	if !simulated.OneTrace {
		t.Skip("needs the overlay of testbed/simulated/onetrace, and -tags onetrace")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	play := func(t *testing.T) *running {
		r := run(t, "5~7")
		require.NoError(t, r.Act(t.Context(), console.Request{Do: "freeze", Node: r.leader(t)}))
		r.to(t, Election)
		for range 3 {
			r.to(t, Message)
		}
		require.NoError(t, r.Act(t.Context(), console.Request{Do: "hold", Node: "leader", Peer: "writing"}))
		drain := console.Request{Do: "drain", Node: "data-1"}
		_, err := r.Explain(t.Context(), drain)
		require.NoError(t, err)
		require.NoError(t, r.Act(t.Context(), drain))
		r.stopAfter(5000)
		require.NoError(t, r.SetPace(Pace{Speed: 20}))
		r.await()
		return r
	}
	play(t).end() // what is initialized at its first use
	r := play(t)
	moment := r.Pace().Start
	r.end()
	again := run(t, moment)
	assert.Equal(t, moment, again.Pace().Start)
	again.end()
	want, got := r.sent[:r.at], again.sent[:again.at]
	require.Equal(t, len(want), len(got))
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			from := max(0, i-3)
			require.Fail(t, "the second run differs", "%s: line %d of %d\n%s\n--\n%s", moment, i, len(want), strings.Join(want[from:i+1], "\n"), strings.Join(got[from:i+1], "\n"))
		}
	}
	t.Log(moment, len(want))
}
