package termcas_test

import (
	"bufio"
	"context"
	stdsql "database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
	"conclave/elector/fence"
	"conclave/elector/termcas"
	"conclave/internal/devdb"
	conclavesql "conclave/sql"
)

// Real processes, a real database process, and real SIGSTOPs. All run on one machine, so
// that their events have one clock: CLOCK_MONOTONIC.

// sigstops is how many leaders TestSIGSTOP_PerceivedLeadershipsDoNotOverlap stops.
var sigstops = flag.Int("sigstops", 2, "how many leaders are stopped with SIGSTOP")

// The environment variables that make the test binary run as a database or a reporter.
const (
	databaseEnv = "TERMCAS_TEST_DATABASE"
	reporterEnv = "TERMCAS_TEST_REPORTER" // NAME INCARNATION LOCK LEASE DSN
)

// bothClocks reads both clocks within a millisecond, so that one can be converted into
// the other.
func bothClocks() (began time.Time, anchor time.Duration) {
	for {
		anchor = monotonic()
		began = time.Now()
		if monotonic()-anchor < time.Millisecond {
			return began, anchor
		}
	}
}

// database serves the embedded server, as cmd/devdb does, until it is killed.
func database() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		var server *devdb.Server
		if server, err = devdb.New(devdb.Config{Listener: listener}); err == nil {
			fmt.Println("ready", listener.Addr())
			err = server.Run(context.Background())
		}
	}
	fmt.Println("failed", err)
}

// reported is one line of a reporter's output.
type reported struct {
	Kind  string        // "led", "extended", "left": its perceived leadership; "acted", "refused": its effects
	At    time.Duration // by CLOCK_MONOTONIC
	Until time.Duration // end of trust
	Term  uint64
}

// reporter is the main function of a candidate with takeover by lease. It writes its
// perceived leaderships to its output, and acts continuously under the last term that it
// has led, also when it does not lead any more: so does a process that is stopped between
// the check and the act.
func reporter() {
	args := strings.SplitN(os.Getenv(reporterEnv), " ", 5)
	out := json.NewEncoder(os.Stdout)
	var mu sync.Mutex // keeps lines whole and in the order of the events
	check := func(err error) {
		if err != nil {
			mu.Lock()
			_ = out.Encode(reported{Kind: err.Error()})
			os.Exit(1)
		}
	}
	lease, err := time.ParseDuration(args[3])
	check(err)
	id := conclave.NodeID{Name: args[0], Incarnation: args[1]}
	lock := conclavesql.Lock{DataCenter: "test", Name: args[2]}
	db, err := conclavesql.Open(args[4], conclavesql.Options{Deadline: lease / 3})
	check(err)
	strategy, err := termcas.New(termcas.Config{DB: db, Lock: lock, Takeover: termcas.Lease})
	check(err)
	began, anchor := bothClocks()
	at := func(moment time.Time) time.Duration { return anchor + moment.Sub(began) }
	var last uint64 // guarded by mu
	e, err := elector.New(elector.Config{ID: id, Strategy: strategy, Lease: lease, Trace: func(c elector.Event) {
		line := reported{At: at(time.Now()), Until: at(c.Until), Term: c.Term}
		switch c.Kind {
		case elector.EventLed:
			line.Kind = "led"
		case elector.EventExtended:
			line.Kind = "extended"
		case elector.EventLeft:
			line.Kind, line.Until = "left", line.At
		default:
			return
		}
		mu.Lock()
		defer mu.Unlock()
		last = c.Term
		_ = out.Encode(line)
	}})
	check(err)
	pool, err := stdsql.Open("mysql", args[4]+"?timeout=1s&readTimeout=1s&writeTimeout=1s&interpolateParams=true")
	check(err)
	go func() {
		for ; ; time.Sleep(20 * time.Millisecond) {
			mu.Lock()
			term := last
			mu.Unlock()
			if term == 0 {
				continue
			}
			table, values := fence.Token{Lock: lock, Owner: id.String(), Term: term}.Table()
			result, err := pool.Exec("INSERT INTO acts (term, owner) SELECT fence.term, fence.owner FROM "+table, values...)
			if err != nil {
				continue
			}
			kind := "refused"
			if n, err := result.RowsAffected(); err == nil && n == 1 {
				kind = "acted"
			}
			mu.Lock()
			_ = out.Encode(reported{Kind: kind, At: at(time.Now()), Term: term})
			mu.Unlock()
		}
	}()
	_ = e.Run(context.Background())
}

// reporterProcess is a running reporter and its output.
type reporterProcess struct {
	cmd     *exec.Cmd
	mu      sync.Mutex
	reports []reported
	ended   chan struct{} // closed at the end of its output
}

func startReporter(t *testing.T, name string, lock string, lease time.Duration, dsn string) *reporterProcess {
	p := &reporterProcess{cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), reporterEnv+"="+strings.Join([]string{name, "1", lock, lease.String(), dsn}, " "))
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			var line reported
			if err := json.Unmarshal(scan.Bytes(), &line); err != nil {
				continue // incomplete: the process was killed
			}
			p.mu.Lock()
			p.reports = append(p.reports, line)
			p.mu.Unlock()
		}
	}()
	t.Cleanup(p.kill)
	return p
}

func (p *reporterProcess) kill() {
	p.cmd.Process.Kill()
	<-p.ended
	p.cmd.Wait()
}

// lines returns its output so far.
func (p *reporterProcess) lines() []reported {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]reported(nil), p.reports...)
}

// refusals returns how many of its effects were refused so far.
func refusals(p *reporterProcess) (n int) {
	for _, line := range p.lines() {
		if line.Kind == "refused" {
			n++
		}
	}
	return n
}

// interval is one uninterrupted perceived leadership.
type interval struct {
	node        string
	term        uint64
	from, until time.Duration
	left        bool
}

// intervals returns a process's perceived leaderships.
func (p *reporterProcess) intervals(name string) (list []interval) {
	for _, line := range p.lines() {
		now := len(list) - 1
		switch line.Kind {
		case "led":
			list = append(list, interval{node: name, term: line.Term, from: line.At, until: line.Until})
		case "extended":
			if list[now].left { // it may not act any more: the term is renewed until its hand-over
				continue
			}
			if line.At > list[now].until { // its trust had ended in between
				list = append(list, interval{node: name, term: line.Term, from: line.At, until: line.Until})
			} else {
				list[now].until = line.Until
			}
		case "left":
			if now >= 0 && list[now].term == line.Term {
				list[now].until, list[now].left = min(list[now].until, line.At), true
			}
		}
	}
	return list
}

// Three processes elect by the lease, and the leader is stopped several times, for half a
// lease to three leases. No two perceived leaderships overlap, and what a process sends
// under its old term when it continues changes nothing.
func TestSIGSTOP_PerceivedLeadershipsDoNotOverlap(t *testing.T) {
	times := *sigstops
	const lease = 3 * time.Second

	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), databaseEnv+"=1")
	out, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	first := bufio.NewScanner(out)
	require.True(t, first.Scan())
	addr, ok := strings.CutPrefix(first.Text(), "ready ")
	require.True(t, ok, first.Text())
	dsn := "root@tcp(" + addr + ")/conclave"
	b := newBench(t, dsn, new(net.Dialer).DialContext, termcas.Lease)
	_, err = b.db.Exec(t.Context(), "CREATE TABLE acts (id bigint PRIMARY KEY AUTO_INCREMENT, term bigint NOT NULL, owner varchar(255) NOT NULL)")
	require.NoError(t, err)

	names := []string{"a", "b", "c"}
	processes := map[string]*reporterProcess{}
	for _, name := range names {
		processes[name] = startReporter(t, name, b.lock.Name, lease, dsn)
	}
	// leader waits for a process that leads now and has acted under its term.
	leader := func() (name string, term uint64) {
		require.Eventually(t, func() bool {
			for _, candidate := range names {
				lines, acted := processes[candidate].lines(), uint64(0)
				for _, line := range lines {
					switch {
					case line.Kind == "acted":
						acted = line.Term
					case (line.Kind == "led" || line.Kind == "extended") && line.Until > monotonic() && line.Term == acted:
						name, term = candidate, line.Term
					case line.Kind == "left" && line.Term == term:
						name, term = "", 0
					}
				}
				if name != "" {
					return true
				}
			}
			return false
		}, time.Minute, 5*time.Millisecond, "a process leads")
		return name, term
	}
	for i := range times {
		name, _ := leader()
		p := processes[name].cmd.Process
		// From half a lease to three, each time at another phase of the beat.
		stopped := lease/2 + time.Duration(i)*(5*lease/2)/time.Duration(max(1, times-1))
		time.Sleep(time.Duration(i*37%300) * time.Millisecond)
		require.NoError(t, p.Signal(syscall.SIGSTOP))
		time.Sleep(stopped)
		before := refusals(processes[name])
		if stopped < 2*lease {
			require.NoError(t, p.Signal(syscall.SIGCONT))
			continue
		}
		leader() // wait for another one: the machine may be busy
		require.NoError(t, p.Signal(syscall.SIGCONT))
		require.Eventually(t, func() bool { return refusals(processes[name]) > before }, time.Minute, 5*time.Millisecond,
			"an act under the old term is refused")
	}
	leader()
	for _, p := range processes {
		p.kill()
	}

	// The perceived leaderships of all processes.
	var leaderships []interval
	acted, refused, terms := 0, 0, map[uint64]string{}
	for name, p := range processes {
		leaderships = append(leaderships, p.intervals(name)...)
		for _, line := range p.lines() {
			switch line.Kind {
			case "led":
				assert.Empty(t, terms[line.Term], "term %d", line.Term)
				terms[line.Term] = name
			case "acted":
				acted++
			case "refused":
				refused++
			}
		}
	}
	for i, x := range leaderships {
		for _, y := range leaderships[:i] {
			if x.node != y.node {
				assert.False(t, x.from < y.until && y.from < x.until, "%+v and %+v", x, y)
			}
		}
	}
	// What the database accepted, in its order.
	newest := uint64(0)
	require.NoError(t, b.db.Query(t.Context(), "SELECT term, owner FROM acts ORDER BY id", nil, func(scan func(...any) error) error {
		var term uint64
		var owner string
		if err := scan(&term, &owner); err != nil {
			return err
		}
		assert.GreaterOrEqual(t, term, newest, "an effect of term %d after one of %d", term, newest)
		newest = max(newest, term)
		id, err := conclave.ParseNodeID(owner)
		assert.NoError(t, err)
		assert.Equal(t, terms[term], id.Name, "term %d", term)
		return nil
	}))
	t.Logf("%d leaders stopped: %d terms, %d perceived leaderships, none overlap; %d effects, none stale, %d stale ones refused", times, len(terms), len(leaderships), acted, refused)
	assert.Greater(t, len(terms), 1, "at least one leader was stopped for longer than its lease")
	assert.Positive(t, refused, "stale effects were tried")
}
