package termcas_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
	"conclave/elector/termcas"
	"conclave/internal/long"
	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

// manyEnv makes this test binary a process with many elections: NAME INCARNATION LOCKS
// FIRST LAST LEASE DSN. It takes part in the locks from FIRST to before LAST before the
// others.
const manyEnv = "TERMCAS_TEST_MANY"

// manyElections is the main function of that process. It writes when it begins and ends
// to lead a lock, and once a second how many statements it has sent and the most
// connections that it has had, and runs until it is killed.
func manyElections() {
	args := strings.SplitN(os.Getenv(manyEnv), " ", 7)
	check := func(err error) {
		if err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
	}
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		check(err)
		return n
	}
	lease, err := time.ParseDuration(args[5])
	check(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	var conns openConns
	db, err := conclavesql.Open(args[6], conclavesql.Options{Dial: conns.counting(new(net.Dialer).DialContext), Deadline: lease / 6, MaxConns: 2})
	check(err)
	shared, err := termcas.NewShared(termcas.Config{DB: db, Lock: conclavesql.Lock{DataCenter: "test"}})
	check(err)
	electors := make([]*elector.Elector, number(args[2]))
	for i := range electors {
		lock := conclavesql.Lock{DataCenter: "test", Name: fmt.Sprint("many-", i)}
		strategy, err := shared.Strategy(termcas.Config{Lock: lock, Ask: askByHTTP})
		check(err)
		electors[i], err = elector.New(elector.Config{
			ID: conclave.NodeID{Name: args[0], Incarnation: args[1]}, Address: fmt.Sprint(listener.Addr(), "/", i),
			Strategy: strategy, Lease: lease,
			Lead: func(ctx context.Context, _ elector.Term) error {
				fmt.Println("leading", i, time.Now().UnixNano())
				<-ctx.Done()
				fmt.Println("left", i, time.Now().UnixNano())
				return nil
			},
		})
		check(err)
	}
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i, err := strconv.Atoi(strings.Trim(r.URL.Path, "/"))
		term, _ := strconv.ParseUint(r.FormValue("term"), 10, 64)
		fmt.Fprint(w, err == nil && electors[i].ConfirmLeading(term, r.FormValue("lock")))
	}))
	first, last := number(args[3]), number(args[4])
	for i := range electors[first:last] {
		go electors[first+i].Run(context.Background())
	}
	time.Sleep(2 * lease)
	for i := range electors {
		if i < first || i >= last {
			go electors[i].Run(context.Background())
		}
	}
	for ; ; time.Sleep(time.Second) {
		fmt.Println("sent", db.Statements(), conns.most.Load())
	}
}

// openConns counts connections that are open.
type openConns struct{ open, most atomic.Int64 }

// counting returns a function that dials and counts.
func (o *openConns) counting(dial dialer) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		for n := o.open.Add(1); ; {
			if most := o.most.Load(); n <= most || o.most.CompareAndSwap(most, n) {
				break
			}
		}
		return &counted{Conn: conn, closed: sync.OnceFunc(func() { o.open.Add(-1) })}, nil
	}
}

// counted is a connection that is counted while it is open.
type counted struct {
	net.Conn
	closed func()
}

func (c *counted) Close() error {
	c.closed()
	return c.Conn.Close()
}

// span is a time in which one process led a lock.
type span struct{ from, to time.Time }

// many is a running process with many elections.
type many struct {
	*process
	ended chan struct{}

	mu    sync.Mutex // guards the fields below
	leads map[int]time.Time
	spans map[int][]span // that have ended
	sent  int
	conns int
}

func startMany(t *testing.T, args ...any) *many {
	m := &many{
		process: startProcess(t, manyEnv+"="+strings.TrimSuffix(fmt.Sprintln(args...), "\n")),
		ended:   make(chan struct{}), leads: map[int]time.Time{}, spans: map[int][]span{},
	}
	go func() {
		defer close(m.ended)
		for line := range m.lines {
			m.took(line)
		}
	}()
	return m
}

// took takes in a line of the process's output.
func (m *many) took(line []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(line) != 3 {
		return // the process was killed while it wrote it, or has failed
	}
	first, _ := strconv.Atoi(line[1])
	second, _ := strconv.ParseInt(line[2], 10, 64)
	switch line[0] {
	case "leading":
		m.leads[first] = time.Unix(0, second)
	case "left":
		m.spans[first] = append(m.spans[first], span{m.leads[first], time.Unix(0, second)})
		delete(m.leads, first)
	case "sent":
		m.sent, m.conns = first, int(second)
	}
}

// leading returns how many locks the process leads, and how many statements it has sent.
func (m *many) leading() (locks, sent int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.leads), m.sent
}

// end kills the process. What it led has ended before.
func (m *many) end() {
	now := time.Now()
	m.kill()
	<-m.ended
	for i, from := range m.leads {
		m.spans[i] = append(m.spans[i], span{from, now})
	}
}

var manyFor = flag.Duration("many-for", time.Minute, "how long TestMany_KilledProcesses kills processes")

// A thousand locks in twenty processes, of which one is killed each ten seconds: no lock
// is without a leader for more than a lease, and each process needs four connections. A
// process that is killed is replaced by the one that waits for its witness, or at the
// lease: the limit of the test is that, with the beat that an election may be late and
// the one in which it wins.
func TestMany_KilledProcesses(t *testing.T) {
	if !long.All() {
		t.Skip("TEST_ALL=1 runs it on a real server")
	}
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		const locks, processes, lease = 1000, 20, 6 * time.Second
		b := onServer(t, s, termcas.Witness)
		b.Lease = lease
		b.seedMany(t, locks)
		incarnation := 0
		start := func(i int) *many {
			incarnation++
			return startMany(t, fmt.Sprint("p", i), incarnation, locks, i*locks/processes, (i+1)*locks/processes, lease, b.dsn)
		}
		var running, killed []*many
		for i := range processes {
			running = append(running, start(i))
		}
		leads := func() (all int) {
			for _, m := range running {
				n, _ := m.leading()
				all += n
			}
			return all
		}
		require.Eventually(t, func() bool { return leads() == locks }, time.Minute, 100*time.Millisecond)
		time.Sleep(4 * lease) // all take part in all elections, and wait for each other
		sent := func() (all int) {
			for _, m := range append(slices.Clone(running), killed...) {
				_, n := m.leading()
				all += n
			}
			return all
		}
		before, began := sent(), time.Now()
		time.Sleep(2 * lease)
		t.Logf("without a fault: %.1f statements per second and process", float64(sent()-before)/processes/time.Since(began).Seconds())

		before, began = sent(), time.Now()
		for time.Since(began) < *manyFor {
			i := 0 // the process that leads the most locks
			for j, m := range running {
				most, _ := running[i].leading()
				if n, _ := m.leading(); n > most {
					i = j
				}
			}
			running[i].end()
			killed = append(killed, running[i])
			running[i] = start(i)
			time.Sleep(10 * time.Second)
		}
		took := time.Since(began)
		t.Logf("%d processes killed in %v: %.1f statements per second and process", len(killed), took.Round(time.Second), float64(sent()-before)/processes/took.Seconds())
		ended := time.Now()
		for _, m := range running {
			m.end()
		}
		longest, late, most := time.Duration(0), 0, 0
		overLease := map[int]int{} // by the number of the kill before it: locks without a leader for more than a lease
		for i := range locks {
			var spans []span
			for _, m := range append(running, killed...) {
				spans = append(spans, m.spans[i]...)
				most = max(most, m.conns)
			}
			slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from.UnixNano(), b.from.UnixNano()) })
			require.NotEmpty(t, spans)
			until := spans[0].from
			for _, s := range append(spans, span{from: ended}) {
				gap := s.from.Sub(until)
				longest = max(longest, gap)
				if gap > lease/3 {
					late++
				}
				if gap > lease {
					overLease[int(until.Sub(began)/(10*time.Second))]++
				}
				if s.to.After(until) {
					until = s.to
				}
			}
		}
		t.Logf("the longest time without a leader: %v; %d longer than a beat; longer than a lease, by kill: %v; at most %d connections of a process", longest, late, overLease, most)
		assert.LessOrEqual(t, longest, lease+2*lease/3)
		assert.LessOrEqual(t, most, 4)
	})
}
