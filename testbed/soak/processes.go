package soak

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"conclave/testbed"
	"conclave/testbed/check/blackbox"
)

// processes checks how the processes of a cluster end, and how much memory they have.
type processes struct {
	oracle *blackbox.Oracle

	mu sync.Mutex // guards the rest
	of map[string]*process
}

// process is one process, through all its incarnations.
type process struct {
	runs    bool      // it has been started, and neither killed nor stopped since
	changed time.Time // when runs was
	stopped time.Time // when it was asked to stop, while nothing else was in effect; zero: its end is not checked
	memory  Growth    // of the present incarnation
	longest Growth    // of those before
	most    float64   // MB, of all incarnations
}

func newProcesses(o *blackbox.Oracle) *processes {
	return &processes{oracle: o, of: map[string]*process{}}
}

// before records an action that is about to be carried out; alone: no other one is in
// effect.
func (s *processes) before(a testbed.Action, alone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, p := range s.of {
		if !a.EndsFault() || name == a.Node {
			p.stopped = time.Time{}
		}
	}
	p := s.of[a.Node]
	switch {
	case p == nil:
	case a.Verb == testbed.Kill, a.Verb == testbed.Stop:
		if p.runs, p.changed = false, time.Now(); alone && a.Verb == testbed.Stop {
			p.stopped = p.changed
		}
	case a.Verb == testbed.Start && s.lost(): // up to now
		s.oracle.Lost()
	}
}

// after records the result of an action.
func (s *processes) after(a testbed.Action, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.of[a.Node]
	switch {
	case p == nil:
	case a.Verb == testbed.Start && err == nil:
		p.runs, p.changed = true, time.Now()
	case a.Verb == testbed.Kill && s.lost():
		s.oracle.Lost()
	}
}

// lost reports whether all data nodes and all sessions are down; mu is held.
func (s *processes) lost() bool {
	for name, p := range s.of {
		if role := testbed.RoleOf(name); p.runs && (role == "data" || role == "session") {
			return false
		}
	}
	return true
}

// look checks the processes as they are now, if that is known.
func (s *processes) look(ctx context.Context, c testbed.RealCluster) {
	began := time.Now()
	all, err := c.Processes(ctx)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, now := range all {
		p := s.of[now.Name]
		if p == nil { // the first look
			p = &process{runs: true}
			s.of[now.Name] = p
		}
		if now.Running && now.RSS > 0 {
			p.note(now, began)
		}
		if p.changed.Before(began) { // otherwise now may be before the change
			s.check(p, now)
		}
	}
}

// note records the memory of a process; mu is held.
func (p *process) note(now testbed.Process, at time.Time) {
	if p.memory.PID != now.PID {
		p.longest, p.memory = p.longestGrowth(), Growth{}
	}
	p.memory.add(now, at)
	p.most = max(p.most, p.memory.LastMB)
}

func (p *process) longestGrowth() Growth {
	if p.longest.Seconds > p.memory.Seconds {
		return p.longest
	}
	return p.memory
}

// check compares a process with what it should do; mu is held.
func (s *processes) check(p *process, now testbed.Process) {
	if p.runs {
		s.oracle.Expect(checkProcess, now.Running, "%s (pid %d) ended by itself: exit code %d %s", now.Name, now.PID, now.Code, now.Signal)
		p.runs = now.Running
		return
	}
	took := time.Since(p.stopped)
	if p.stopped.IsZero() || now.Running && took <= endBound {
		return
	}
	s.oracle.Expect(checkExit, clean(now) && took <= endBound,
		"%s was stopped, without other faults: running %t after %s, exit code %d %s", now.Name, now.Running, took.Round(time.Millisecond), now.Code, now.Signal)
	p.stopped = time.Time{}
}

// clean reports whether a process has ended with exit code 0.
func clean(p testbed.Process) bool { return !p.Running && p.Code == 0 && p.Signal == "" }

// growth returns the memory of each process, by name, and checks it.
func (s *processes) growth(raced bool) []Growth {
	s.mu.Lock()
	defer s.mu.Unlock()
	bound := float64(memoryBound)
	if raced {
		bound *= racedFactor
	}
	out := []Growth{}
	for _, name := range slices.Sorted(maps.Keys(s.of)) {
		if p := s.of[name]; p.most > 0 {
			s.oracle.Expect(checkMemory, p.most <= bound, "%s had %.0f MB resident; the bound is %.0f", name, p.most, bound)
			out = append(out, p.longestGrowth())
		}
	}
	return out
}
