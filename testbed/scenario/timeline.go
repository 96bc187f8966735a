package scenario

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"conclave/slot"
	"conclave/testbed"
	"conclave/testbed/check"
)

// Timeline is a cluster, and the narrator of a run on it, that prints the actions, the
// changes of the state, and the active faults.
type Timeline struct {
	testbed.Cluster
	out io.Writer

	mu    sync.Mutex // guards the fields below
	began time.Time
	last  string
	open  testbed.ActiveFaults
}

// NewTimeline returns c with a timeline on out.
func NewTimeline(c testbed.Cluster, out io.Writer) *Timeline { return &Timeline{Cluster: c, out: out} }

// Begins, Ended and Decided print nothing.
func (n *Timeline) Begins(Scene) {}

func (n *Timeline) Ended(func() (*check.History, error)) {}

func (n *Timeline) Decided(Expectation, testbed.Snapshot, time.Duration, error) {}

// Did prints an action of the player itself, which is not one of the cluster.
func (n *Timeline) Did(a testbed.Action, _ error) {
	switch a.Verb {
	case testbed.Hold, testbed.HoldOne, testbed.Release, testbed.Burst, testbed.EndBurst:
		n.say("> " + a.String())
		n.note(a)
	}
}

func (n *Timeline) note(a testbed.Action) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open.Note(a)
}

func (n *Timeline) say(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.began.IsZero() {
		n.began = time.Now()
	}
	fmt.Fprintf(n.out, "%6.1f s  %s\n", time.Since(n.began).Seconds(), strings.ReplaceAll(text, "\n", "; "))
}

// Do prints the action and, if it fails, the error.
func (n *Timeline) Do(ctx context.Context, a testbed.Action) error {
	n.say("> " + a.String())
	if err := n.Cluster.Do(ctx, a); err != nil {
		n.say("  refused: " + err.Error())
		return err
	}
	n.note(a)
	return nil
}

// Observe prints the state if it has changed.
func (n *Timeline) Observe(ctx context.Context) testbed.Snapshot {
	s := n.Cluster.Observe(ctx)
	n.mu.Lock()
	now := stateLine(s, n.open.List())
	changed := now != n.last
	n.last = now
	n.mu.Unlock()
	if changed {
		n.say("  " + now)
	}
	return s
}

// stateLine returns the observed state and the active faults in one line.
func stateLine(s testbed.Snapshot, open []testbed.Action) string {
	now := "no leader"
	if s.Leader != "" {
		now = fmt.Sprintf("%s leads term %d", s.Leader, s.Term)
	}
	if s.Leads > 1 {
		now += fmt.Sprintf(", %d report that they lead", s.Leads)
	}
	now += fmt.Sprintf(", %d of %d up are ready", len(s.Ready), len(s.Up))
	unserved := 0
	for _, x := range s.Table.Slots {
		if x.Phase == slot.Crash || x.Phase == slot.Switching {
			unserved++
		}
	}
	if unserved > 0 {
		now += fmt.Sprintf(", slots without a leader: %d", unserved)
	}
	if s.Frozen {
		now += ", protected"
	}
	active := "; active: "
	for _, a := range open {
		now += active + lasting(a)
		active = ", "
	}
	return now
}

// lasting describes an active fault.
func lasting(a testbed.Action) string {
	switch a.Verb {
	case testbed.Kill, testbed.Stop:
		return a.Node + " is down"
	case testbed.Pause:
		return a.Node + " is suspended"
	}
	return a.String()
}
