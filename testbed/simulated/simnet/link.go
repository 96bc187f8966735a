package simnet

import (
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// Shape is the behaviour of one direction of a link.
type Shape struct {
	// Latency is the minimum delay. A duration drawn evenly from [0, Spread) is
	// added to it.
	Latency, Spread time.Duration
	// Bandwidth is in bytes per second; 0 means unlimited.
	Bandwidth int
}

// A lost segment is sent again after resend; the delay doubles with each
// further loss, up to maxResend.
const (
	resend    = 200 * time.Millisecond
	maxResend = 2 * time.Minute
)

// link is one direction between two hosts. Net.mu guards it.
type link struct {
	shape  Shape
	shaped bool // by Net.Shape; false for the default shape
	cut    bool
	// loseNext breaks the connection that sends next.
	loseNext bool
	busy     time.Time // when the bytes sent so far have left, given the bandwidth
	stream   *rand.Rand
}

// hash returns a number for the name, the same in every run.
func hash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// link returns the direction from one host to another. Net.mu is held.
func (n *Net) link(from, to string) *link {
	key := [2]string{from, to}
	l := n.links[key]
	if l == nil {
		l = &link{shape: n.byDefault, stream: rand.New(rand.NewPCG(n.seed, hash(from+">"+to)))}
		if from == to {
			l.shape = Shape{}
		}
		n.links[key] = l
	}
	return l
}

// trip returns how long a segment of that size travels, and whether it arrives.
func (l *link) trip(size int) (d time.Duration, arrives bool) {
	s := l.shape
	if s.Bandwidth > 0 {
		now := time.Now()
		if l.busy.Before(now) {
			l.busy = now
		}
		l.busy = l.busy.Add(time.Duration(float64(size) / float64(s.Bandwidth) * float64(time.Second)))
		d = l.busy.Sub(now)
	}
	d += s.Latency
	if s.Spread > 0 {
		d += time.Duration(l.stream.Int64N(int64(s.Spread)))
	}
	return d, !l.cut
}
