package soak

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"conclave/testbed"
)

// What a step can be beside the verbs of package testbed.
const (
	Drain testbed.Verb = "drain" // puts a node on the blacklist; testbed.Allow takes it off
	Leave testbed.Verb = "leave" // Count visitors of the load withdraw and leave now
	Serve testbed.Verb = "serve" // check that the cluster serves, whichever commands it has accepted
)

// Step is one act at its offset in an episode.
type Step struct {
	At         time.Duration
	Act        testbed.Verb
	Node       string // a node, database, or "leader": the meta that leads when it is first named in the episode
	Peer       string
	Key, Value string // of Switch
	By         time.Duration
	Count      int
	Clean      bool // of Stop: there is no other fault, so the exit code must be 0
}

func (s Step) String() string {
	words := []string{string(s.Act)}
	if s.Node != "" {
		words = append(words, s.Node)
	}
	if s.Peer != "" {
		words = append(words, "from", s.Peer)
	}
	if s.Key != "" {
		words = append(words, s.Key, s.Value)
	}
	if s.By > 0 {
		words = append(words, "by", s.By.String())
	}
	if s.Count > 0 {
		words = append(words, strconv.Itoa(s.Count))
	}
	return strings.Join(words, " ")
}

// Episode is a few faults and commands that overlap.
type Episode struct {
	Number int
	Name   string
	Steps  []Step // sorted by offset
}

func (e Episode) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "episode %d: %s\n", e.Number, e.Name)
	for _, s := range e.Steps {
		fmt.Fprintf(&b, "  +%5.1f s  %s\n", s.At.Seconds(), s)
	}
	return b.String()
}

// Plan is an endless sequence of episodes. Equal seeds and capabilities give
// equal sequences.
type Plan struct {
	seed uint64
	size testbed.Size
	can  *testbed.Capabilities
	only string
	deck []shape // shapes that remain in this round
	next int
}

// NewPlan returns the plan of a seed for a cluster of that size and with these
// capabilities, limited to shapes whose names contain only.
func NewPlan(seed uint64, size testbed.Size, can *testbed.Capabilities, only string) *Plan {
	return &Plan{seed: seed, size: size, can: can, only: only}
}

// fits reports whether a shape can occur in this plan.
func (p *Plan) fits(s shape) bool {
	link := testbed.Step{Verb: testbed.Cut, Who: "data-1", Whom: "session-1"}
	return strings.Contains(s.name, p.only) && (!s.links || p.can.Allows(link) == nil)
}

// Next returns the next episode. Every shape occurs once in each round, in an
// order given by the seed, so that a run of moderate length omits none.
func (p *Plan) Next() Episode {
	p.next++
	r := rand.New(rand.NewPCG(p.seed, uint64(p.next)))
	if len(p.deck) == 0 {
		p.deck = slices.DeleteFunc(slices.Clone(shapes), func(s shape) bool { return !p.fits(s) })
		r.Shuffle(len(p.deck), func(i, j int) { p.deck[i], p.deck[j] = p.deck[j], p.deck[i] })
	}
	s := p.deck[0]
	p.deck = p.deck[1:]
	d := &draw{Rand: r, size: p.size}
	s.make(d)
	slices.SortStableFunc(d.steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return Episode{Number: p.next, Name: s.name, Steps: d.steps}
}

// draw collects the steps of one episode.
type draw struct {
	*rand.Rand
	size  testbed.Size
	steps []Step
}

// at adds a step.
func (d *draw) at(at time.Duration, s Step) {
	s.At = at.Round(10 * time.Millisecond)
	d.steps = append(d.steps, s)
}

// between draws a duration, in steps of ten milliseconds.
func (d *draw) between(least, most time.Duration) time.Duration {
	return (least + time.Duration(d.Int64N(int64(most-least)+1))).Round(10 * time.Millisecond)
}

// outage draws the length of an outage: shorter or longer than a lease or
// grace.
func (d *draw) outage() time.Duration {
	around := []time.Duration{nodeLease, clientLease, sessionGrace}[d.IntN(3)]
	if d.IntN(2) == 0 {
		return max(500*time.Millisecond, around-d.between(500*time.Millisecond, 2*time.Second))
	}
	return min(longestOutage, around+d.between(500*time.Millisecond, 4*time.Second))
}

// names returns the nodes of a role in a random order.
func (d *draw) names(role string) []string {
	out := d.size.NodesOf(role)
	d.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func (d *draw) one(role string) string { return d.names(role)[0] }

// down kills a node and starts it again.
func (d *draw) down(at, length time.Duration, node string) {
	d.at(at, Step{Act: testbed.Kill, Node: node})
	d.at(at+length, Step{Act: testbed.Start, Node: node})
}

// frozen pauses a node and resumes it.
func (d *draw) frozen(at, length time.Duration, node string) {
	d.at(at, Step{Act: testbed.Pause, Node: node})
	d.at(at+length, Step{Act: testbed.Resume, Node: node})
}

// drained puts a node on the blacklist and takes it off again.
func (d *draw) drained(at, length time.Duration, node string) {
	d.at(at, Step{Act: Drain, Node: node})
	d.at(at+length, Step{Act: testbed.Allow, Node: node})
}

// cut cuts the link between two nodes and mends it.
func (d *draw) cut(at, length time.Duration, node, peer string) {
	d.at(at, Step{Act: testbed.Cut, Node: node, Peer: peer})
	d.at(at+length, Step{Act: testbed.Mend, Node: node, Peer: peer})
}
