package electorfake

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"conclave"
	"conclave/elector"
	"conclave/elector/electortest"
)

// remote is an Election at the other end of a cable: each step is a line of text and its
// answer, so that the suite can cut, stall, delay and lose it.
type remote struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu   sync.Mutex
	conn net.Conn
}

// answer is what the far end sends.
type answer struct {
	Row     row
	Swapped bool
}

// ask sends one step and reads its answer. After an error the connection is closed.
func (r *remote) ask(ctx context.Context, text string) (a answer, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn == nil {
		if r.conn, err = r.dial(ctx, "tcp", "store"); err != nil {
			return answer{}, err
		}
	}
	conn := r.conn
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if _, err = fmt.Fprintln(conn, text); err == nil {
		err = json.NewDecoder(conn).Decode(&a)
	}
	if err != nil {
		conn.Close()
		r.conn = nil
	}
	return a, err
}

func (r *remote) look(ctx context.Context) (row, error) {
	a, err := r.ask(ctx, "SELECT")
	return a.Row, err
}

func (r *remote) swap(ctx context.Context, old, next row) (bool, error) {
	step, err := json.Marshal([2]row{old, next})
	if err != nil {
		return false, err
	}
	a, err := r.ask(ctx, "UPDATE "+string(step))
	return a.Swapped, err
}

func (r *remote) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn != nil {
		return r.conn.Close()
	}
	return nil
}

// serve executes the steps that arrive on a connection.
func (e *Election) serve(conn net.Conn) {
	defer conn.Close()
	for s := bufio.NewScanner(conn); s.Scan(); {
		var a answer
		if step, isSwap := strings.CutPrefix(s.Text(), "UPDATE "); isSwap {
			var rows [2]row
			if json.Unmarshal([]byte(step), &rows) != nil {
				return
			}
			a.Swapped, _ = e.swap(context.Background(), rows[0], rows[1])
		} else {
			a.Row, _ = e.look(context.Background())
		}
		if json.NewEncoder(conn).Encode(a) != nil {
			return
		}
	}
}

// wired is the strategy of one node whose store is remote.
type wired struct {
	*Strategy
	*remote
}

func (w wired) Close() error { return w.remote.Close() }

// The suite that every strategy must pass, in bubbles, with a network between each node
// and the lock.
func TestConformance(t *testing.T) {
	electortest.Run(t, true, func(t *testing.T) electortest.World {
		election := New()
		var serving sync.WaitGroup
		t.Cleanup(serving.Wait)
		return electortest.World{
			Lease: 3 * time.Second, Bubble: true,
			Dial: func(context.Context, string, string) (net.Conn, error) {
				near, far := net.Pipe()
				serving.Go(func() { election.serve(far) })
				return near, nil
			},
			Strategy: func(_ testing.TB, spec electortest.NodeSpec) elector.Strategy {
				r := &remote{dial: spec.Cable.Dial}
				return wired{newStrategy(r), r}
			},
			FencedWrite: func(_ context.Context, owner conclave.NodeID, term uint64) (bool, error) {
				election.mu.Lock()
				defer election.mu.Unlock()
				return election.holds(owner.String(), term), nil
			},
		}
	})
}
