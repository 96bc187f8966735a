package termcas_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
	"conclave/elector/termcas"
	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

// candidateEnv makes this test binary a candidate: NAME INCARNATION LOCK DSN.
const candidateEnv = "TERMCAS_TEST_CANDIDATE"

// candidateLease is longer than any stall of a busy machine. No test waits for it.
const candidateLease = 9 * time.Second

// candidate is the main function of one process in an election. It writes what it does
// to its standard output, and runs until it is killed.
func candidate() {
	args := strings.SplitN(os.Getenv(candidateEnv), " ", 4)
	check := func(err error) {
		if err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	db, err := conclavesql.Open(args[3], conclavesql.Options{Deadline: candidateLease / 6})
	check(err)
	strategy, err := termcas.New(termcas.Config{DB: db, Lock: conclavesql.Lock{DataCenter: "test", Name: args[2]}, Ask: askByHTTP})
	check(err)
	e, err := elector.New(elector.Config{
		ID:       conclave.NodeID{Name: args[0], Incarnation: args[1]},
		Address:  listener.Addr().String(),
		Strategy: strategy,
		Lease:    candidateLease,
		Lead: func(ctx context.Context, term elector.Term) error {
			fmt.Println("leading", term.Number, time.Now().UnixNano(), term.Cause)
			<-ctx.Done()
			return nil
		},
	})
	check(err)
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		term, _ := strconv.ParseUint(r.FormValue("term"), 10, 64)
		fmt.Fprint(w, e.ConfirmLeading(term, r.FormValue("lock")))
	}))
	go func() {
		for last := uint64(0); ; time.Sleep(time.Millisecond) {
			if term := strategy.WaitingFor(); term != last {
				fmt.Println("waiting", term)
				last = term
			}
		}
	}()
	e.Run(context.Background())
}

// askByHTTP asks at a candidate's port.
func askByHTTP(ctx context.Context, address string, term uint64, lock string) (alive, known bool) {
	query := url.Values{"term": {strconv.FormatUint(term, 10)}, "lock": {lock}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/?"+query.Encode(), nil)
	if err != nil {
		return false, false
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, errors.Is(err, syscall.ECONNREFUSED)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	return err == nil && string(body) == "true", err == nil
}

// process is a running candidate, or one with many elections.
type process struct {
	cmd   *exec.Cmd
	lines chan []string // closed when the process has ended
}

func startCandidate(t testing.TB, name, incarnation, lock, dsn string) *process {
	return startProcess(t, candidateEnv+"="+strings.Join([]string{name, incarnation, lock, dsn}, " "))
}

// startProcess starts this test binary with one more environment variable.
func startProcess(t testing.TB, env string) *process {
	p := &process{cmd: exec.Command(os.Args[0]), lines: make(chan []string, 1000)}
	p.cmd.Env = append(os.Environ(), env)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			p.lines <- strings.Fields(scan.Text())
		}
	}()
	t.Cleanup(p.kill)
	return p
}

// kill sends SIGKILL and waits until the process has ended.
func (p *process) kill() {
	p.cmd.Process.Kill()
	for range p.lines {
	}
	p.cmd.Wait()
}

// await reads the process's output until a line begins with first, and returns it.
func (p *process) await(t testing.TB, first ...string) []string {
	t.Helper()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for {
		select {
		case line, ok := <-p.lines:
			require.True(t, ok, "the candidate has ended")
			require.NotEqual(t, "failed", line[0], line)
			if slices.Equal(line[:len(first)], first) {
				return line
			}
		case <-limit.C:
			require.FailNow(t, "waited too long", "for %v", first)
		}
	}
}

// killTheLeader starts two candidates and kills the leader several times; each time the
// killed one is started again with a new incarnation. It returns the times from before
// each kill to the successor's first act, sorted.
func killTheLeader(t testing.TB, dsn, lock string, times int) (took []time.Duration) {
	incarnations := 0
	start := func(name string) *process {
		incarnations++
		return startCandidate(t, name, strconv.Itoa(incarnations), lock, dsn)
	}
	leader := start("a")
	term := leader.await(t, "leading")[1]
	follower := start("b")
	for i := range times {
		follower.await(t, "waiting", term)
		began := time.Now()
		require.NoError(t, leader.cmd.Process.Kill())
		line := follower.await(t, "leading")
		term = line[1]
		nanos, err := strconv.ParseInt(line[2], 10, 64)
		require.NoError(t, err)
		took = append(took, time.Unix(0, nanos).Sub(began))
		leader.kill()
		leader, follower = follower, start(string(rune('a'+i%26)))
	}
	slices.Sort(took)
	return took
}

func TestKill9_OfLeadingProcess(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		b := onServer(t, s, termcas.Witness)
		took := killTheLeader(t, b.dsn, b.lock.Name, 5)
		t.Logf("from kill -9 to the successor's first act: %v", took)
		assert.Less(t, took[0], candidateLease/3, "shorter than the lease")
		var list []conclavesql.Election
		require.Eventually(t, func() bool { // a leader acts before its election is recorded
			var err error
			list, err = conclavesql.NewHistory(b.db, b.lock).List(t.Context(), 10)
			return err == nil && len(list) == 6
		}, 10*time.Second, 10*time.Millisecond)
		assert.Equal(t, "killed", list[0].Cause)
	})
}

// BenchmarkTakeover measures kill -9 of a process until its successor's first act.
func BenchmarkTakeover(b *testing.B) {
	w := onServer(b, anyServer(b), termcas.Witness)
	report(b, killTheLeader(b, w.dsn, w.lock.Name, b.N))
}

// report reports the percentiles.
func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(took[len(took)/2]), "p50-ms")
	b.ReportMetric(ms(took[len(took)*99/100]), "p99-ms")
	b.ReportMetric(ms(took[len(took)-1]), "max-ms")
	b.ReportMetric(0, "ns/op")
}
