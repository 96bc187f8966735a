package simnet

import (
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// Shape is how a direction of a link treats what passes.
type Shape struct {
	// Latency is the shortest way, Spread what is added to it, evenly drawn.
	Latency, Spread time.Duration
	// Loss is the share of pieces that have to be sent again, 0 to 1.
	Loss float64
	// Bandwidth is in bytes per second; 0 is without bound.
	Bandwidth int
}

// resend is after what time a lost piece is sent again; each further time takes
// twice as long, up to resendMost.
const (
	resend     = 200 * time.Millisecond
	resendMost = 2 * time.Minute
)

// link is one direction between two hosts. Net.mu guards it.
type link struct {
	shape  Shape
	shaped bool // by Shape, not by default
	cut    bool
	// loseNext breaks the connection that sends next.
	loseNext bool
	busy     time.Time // until then bytes are being sent
	stream   *rand.Rand
}

// hash is a number for a name, the same in every run.
func hash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// link is called with mu held.
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

// trip is how long a piece of some bytes takes, and whether it arrives at all.
func (l *link) trip(size int) (d time.Duration, heard bool) {
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
	if s.Loss > 0 {
		for again := resend; again < resendMost && l.stream.Float64() < s.Loss; again *= 2 {
			d += again
		}
	}
	return d, !l.cut
}
