package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"conclave"
	conclavesql "conclave/sql"
)

// Seat is what a candidate's process is told, on the first line of its standard input.
type Seat struct {
	Rule        string        `json:"rule"`
	Name        string        `json:"name"`
	Incarnation string        `json:"incarnation"`
	Lab         string        `json:"lab"` // the election: a lock's name, a row's key, a node's path
	DSN         string        `json:"dsn"`
	Tree        string        `json:"tree"`           // ZooKeeper's address; may be empty
	From        string        `json:"from"`           // the address to dial from, by which the network knows who calls
	ThroughSQL  string        `json:"throughSQL"`     // where the database is dialled
	ThroughTree string        `json:"throughTree"`    // where ZooKeeper is
	Times       Times         `json:"times"`          // the rule's
	Act         time.Duration `json:"actNanos"`       // between two writes of who believes
	StopLimit   time.Duration `json:"stopLimitNanos"` // how long a graceful stop may take
}

// ID is the candidate as a node.
func (s Seat) ID() conclave.NodeID {
	return conclave.NodeID{Name: s.Name, Incarnation: s.Incarnation}
}

// Event is a line that a candidate says on its standard output. Instants are on the
// machine's shared clock (stamp).
type Event struct {
	What   string `json:"what"` // ready, leads, extends, left, wake, cost, failed
	At     int64  `json:"at"`
	Until  int64  `json:"until,omitempty"`  // of leads and extends: believed until then; 0: no such limit
	Number uint64 `json:"number,omitempty"` // of leads: the rule's own; 0: it has none
	Why    string `json:"why,omitempty"`

	Ask        uint64 `json:"ask,omitempty"`        // of cost: the question's number; 0: nobody asked, it stops
	Statements uint64 `json:"statements,omitempty"` // of cost: so far
	Turns      uint64 `json:"turns,omitempty"`
	Refused    uint64 `json:"refused,omitempty"` // guarded writes that were refused
	Landed     uint64 `json:"landed,omitempty"`  // guarded writes outside of SQL
	Stale      uint64 `json:"stale,omitempty"`   // of an older leader's: found after an own newer one
}

// stand is what a rule has to work with in its process.
type stand struct {
	Seat
	db      *conclavesql.DB // the rule's own way to the database
	writes  *conclavesql.DB // that of its leader's writes
	belief  *belief
	address string // where it answers whether it leads
	asked   func(term uint64, lock string) bool
	dial    func(ctx context.Context, network, addr string) (net.Conn, error)
	say     func(Event)
	turns   atomic.Uint64
	refused atomic.Uint64
	landed  atomic.Uint64
	stale   atomic.Uint64

	effected uint64 // the term of the last write outside of SQL, by the goroutine that acts
}

// Candidate is a candidate's process: it takes part as the seat on the first line of in
// says, and answers the lines that follow ("cost 17", "wake"). When ctx ends it stops
// gracefully; when in ends it crashes.
func Candidate(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.New("a candidate of the lab is started by `conclave lab elections`")
	}
	var seat Seat
	if err := json.Unmarshal(lines.Bytes(), &seat); err != nil {
		return fmt.Errorf("a candidate's seat: %w", err)
	}
	rule, ok := RuleNamed(seat.Rule)
	if !ok {
		return fmt.Errorf("there is no rule %q", seat.Rule)
	}
	s := &stand{Seat: seat, say: speaker(out)}
	err := s.play(ctx, rule, lines)
	if err != nil {
		s.say(Event{What: "failed", At: stamp(time.Now()), Why: err.Error()})
	}
	return err
}

// speaker writes events, one a line, whoever says them.
func speaker(out io.Writer) func(Event) {
	var mu sync.Mutex
	return func(e Event) {
		line, err := json.Marshal(e)
		if err != nil {
			panic(err) // it holds numbers and text
		}
		mu.Lock()
		defer mu.Unlock()
		_, _ = out.Write(append(line, '\n')) // nobody reads: the other end is gone, and in ends, too
	}
}

// play takes part until ctx or the lines end.
func (s *stand) play(ctx context.Context, rule Rule, lines *bufio.Scanner) error {
	if err := s.connect(); err != nil {
		return err
	}
	defer s.db.Close()
	defer s.writes.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.address = listener.Addr().String()
	server := &http.Server{Handler: http.HandlerFunc(s.answer), ReadHeaderTimeout: time.Second}
	var group sync.WaitGroup
	group.Go(func() { _ = server.Serve(listener) }) // it ends with Close
	defer group.Wait()
	defer server.Close()

	life, crash := context.WithCancel(context.WithoutCancel(ctx))
	defer crash()
	c, err := rule.start(life, s)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	group.Go(func() { ended <- c.Run(life) })
	group.Go(func() { s.act(life, c) })
	over := make(chan struct{})
	go func() { // ends with in, which outlives this function only in a process that ends
		defer close(over)
		s.heed(c, lines)
	}()
	s.say(Event{What: "ready", At: stamp(time.Now())})

	select {
	case <-over: // the lab is gone
		return nil
	case err := <-ended:
		return fmt.Errorf("%s ended: %w", rule.Name, err)
	case <-ctx.Done():
	}
	limited, cancel := context.WithTimeout(life, s.StopLimit)
	defer cancel()
	err = c.Stop(limited)
	s.belief.leave("stopped")
	s.cost(c, 0)
	return err
}

// connect prepares two ways to the database, both through the network with faults.
func (s *stand) connect() (err error) {
	dialer := &net.Dialer{KeepAlive: 5 * time.Second}
	if s.From != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(s.From)}
	}
	s.dial = dialer.DialContext
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if s.ThroughSQL != "" {
			network, addr = "tcp", s.ThroughSQL
		}
		return s.dial(ctx, network, addr)
	}
	s.belief = &belief{say: s.say, news: make(chan struct{}, 1)}
	limit := max(s.Times.Beat/2, 50*time.Millisecond)
	if s.db, err = conclavesql.Open(s.DSN, conclavesql.Options{Dial: dial, Deadline: limit}); err != nil {
		return err
	}
	s.writes, err = conclavesql.Open(s.DSN, conclavesql.Options{Dial: dial, Deadline: 500 * time.Millisecond, MaxConns: 1})
	return err
}

// answer is the port at which a leader is asked whether it is alive.
func (s *stand) answer(w http.ResponseWriter, r *http.Request) {
	term, err := strconv.ParseUint(r.FormValue("term"), 10, 64)
	if err != nil || s.asked == nil {
		http.Error(w, "ask for a term", http.StatusBadRequest)
		return
	}
	fmt.Fprint(w, s.asked(term, r.FormValue("lock")))
}

// heed does what the lab says, until it says no more.
func (s *stand) heed(c candidate, lines *bufio.Scanner) {
	for lines.Scan() {
		switch word, number, _ := strings.Cut(lines.Text(), " "); word {
		case "cost":
			if n, err := strconv.ParseUint(number, 10, 64); err == nil {
				s.cost(c, n)
			}
		case "wake":
			c.Wake()
		}
	}
}

// cost tells what was spent and written, as the answer to a question.
func (s *stand) cost(c candidate, question uint64) {
	statements, turns := c.Cost()
	s.say(Event{
		What: "cost", At: stamp(time.Now()), Ask: question, Statements: statements, Turns: turns,
		Refused: s.refused.Load(), Landed: s.landed.Load(), Stale: s.stale.Load(),
	})
}

// act writes as a leader does, while the candidate believes to be one: at once when it
// begins, and then at each tick. Nothing stands between the check and the write but the
// kernel, which may stop the process there.
func (s *stand) act(ctx context.Context, c candidate) {
	tick := time.NewTicker(s.Act)
	defer tick.Stop()
	var number uint64 // of a leadership that has none of its own,
	var of int        // which is this one
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.belief.news:
		}
		own, ok := c.Leading()
		if !ok {
			continue
		}
		if own == 0 {
			if led := s.belief.led(); led != of {
				n, err := s.register(ctx, led)
				if err != nil {
					continue // the next tick tries again
				}
				number, of = n, led
			}
			own = number
		}
		// Whether it lands is counted where it lands; if none ever does, the report says so.
		_, _ = s.writes.Exec(ctx, conclavesql.LabWrite, own, own, s.Lab)
		if f, guards := c.(fencer); guards {
			if done, err := f.fenced(ctx, s.writes, own); err == nil && !done {
				s.refused.Add(1)
			}
		}
	}
}

// register gives a leadership a number, by the order of the first writes.
func (s *stand) register(ctx context.Context, led int) (number uint64, err error) {
	name := fmt.Sprintf("%s/%s/%d", s.Lab, s.ID(), led)
	if _, err := s.writes.Exec(ctx, conclavesql.LabLeadershipBegin, name); err != nil {
		return 0, err
	}
	err = s.writes.QueryRow(ctx, conclavesql.LabLeadershipNumber, []any{name}, &number)
	return number, err
}
