package soak

import (
	"context"
	"strings"
	"sync"
	"time"

	"conclave/testbed"
)

// desired is the state that the runner has requested for a process.
type desired string

const (
	up       desired = "up"
	paused   desired = "paused"
	down     desired = "down"
	stopping desired = "stopping" // it was asked to stop; runProcesses sees how it ends
)

// states holds the requested state of each process and of the links.
type states struct {
	mu    sync.Mutex // guards the rest
	of    map[string]desired
	moves int                  // incremented with every change
	since map[string]int       // the value of moves when a process's state changed
	clean map[string]time.Time // when a process was stopped whose end is checked: no other fault has begun since
	last  map[string]testbed.Process
}

func newStates() *states {
	return &states{of: map[string]desired{}, since: map[string]int{}, clean: map[string]time.Time{}, last: map[string]testbed.Process{}}
}

func (s *states) set(name string, d desired) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moves++
	s.of[name], s.since[name] = d, s.moves
	if delete(s.clean, name); d == stopping && s.othersUp(name) {
		s.clean[name] = time.Now()
	}
}

// othersUp reports whether every process but one is up; mu is held.
func (s *states) othersUp(but string) bool {
	for name, d := range s.of {
		if name != but && d != up {
			return false
		}
	}
	return true
}

// unclean notes that a fault begins.
func (s *states) unclean() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.clean)
}

// cleanStop reports whether the end of a process is checked, and since when it
// stops.
func (s *states) cleanStop(name string) (since time.Time, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, is = s.clean[name]
	return since, is
}

// eachRoleRuns reports whether at least one process of each role is up.
func (s *states) eachRoleRuns() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	runs := map[string]bool{}
	for name, d := range s.of {
		role := testbed.Process{Name: name}.Role()
		runs[role] = runs[role] || d == up
	}
	for _, any := range runs {
		if !any {
			return false
		}
	}
	return true
}

// lost reports whether all data nodes and all sessions are down.
func (s *states) lost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	nodes := 0
	for name, d := range s.of {
		if strings.HasPrefix(name, "data-") || strings.HasPrefix(name, "session-") {
			nodes++
			if d != down {
				return false
			}
		}
	}
	return nodes > 0
}

func (s *states) get(name string) desired {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[name]
}

// memoryEvery is how often the processes' memory is recorded.
const memoryEvery = 5 * time.Second

// runProcesses checks which processes have ended, until ctx ends.
func (r *Runner) runProcesses(ctx context.Context) {
	tick := time.NewTicker(r.cluster.Capabilities().ProcessesEvery)
	defer tick.Stop()
	var noted time.Time
	for {
		r.states.mu.Lock()
		moves := r.states.moves
		r.states.mu.Unlock()
		all, err := r.cluster.Processes(ctx)
		if err == nil {
			r.ended(all, moves)
			if time.Since(noted) >= memoryEvery {
				noted = time.Now()
				r.memory.note(r.elapsed(), all)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// ended compares the processes with their requested states. A process whose
// state was changed after they were read is checked the next time.
func (r *Runner) ended(all []testbed.Process, moves int) {
	type end struct {
		testbed.Process
		was   desired
		clean bool
	}
	var ends []end
	s := r.states
	s.mu.Lock()
	for _, p := range all {
		s.last[p.Name] = p
		was := s.of[p.Name]
		if p.Running || s.since[p.Name] > moves || was == down || was == "" {
			continue
		}
		_, clean := s.clean[p.Name]
		ends = append(ends, end{p, was, clean})
		s.moves++
		s.of[p.Name], s.since[p.Name] = down, s.moves
	}
	s.mu.Unlock()
	for _, e := range ends {
		if e.was != stopping {
			r.oracle.Expect(checkProcess, false, "%s (pid %d) ended by itself: exit code %d %s", e.Name, e.PID, e.Code, e.Signal)
			continue
		}
		r.oracle.Note("%s has stopped: exit code %d %s", e.Name, e.Code, e.Signal)
		if e.clean {
			r.oracle.Expect(checkExit, e.Code == 0 && e.Signal == "", "%s was stopped, without other faults: exit code %d %s", e.Name, e.Code, e.Signal)
		}
	}
	if len(ends) == 0 {
		r.oracle.Expect(checkProcess, true, "")
	}
}
