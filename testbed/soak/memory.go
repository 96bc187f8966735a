package soak

import (
	"maps"
	"slices"
	"sync"
	"time"

	"conclave/testbed"
)

// memory records the resident size of each incarnation of each process.
type memory struct {
	mu    sync.Mutex
	lives map[life][]sample
}

type life struct {
	name string
	pid  int
}

type sample struct {
	at    time.Duration
	bytes int64
}

func newMemory() *memory { return &memory{lives: map[life][]sample{}} }

func (m *memory) note(at time.Duration, all []testbed.Process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range all {
		if p.Running && p.RSS > 0 {
			l := life{p.Name, p.PID}
			m.lives[l] = append(m.lives[l], sample{at, p.RSS})
		}
	}
}

const mega = 1 << 20

// growth returns the growth of each process's longest incarnation, by name.
func (m *memory) growth() []Growth {
	m.mu.Lock()
	defer m.mu.Unlock()
	longest := map[string]Growth{}
	for l, samples := range m.lives {
		first, last := samples[0], samples[len(samples)-1]
		g := Growth{
			Name: l.name, PID: l.pid, Seconds: int((last.at - first.at).Seconds()),
			FirstMB: float64(first.bytes) / mega, LastMB: float64(last.bytes) / mega,
		}
		for _, s := range samples {
			g.MostMB = max(g.MostMB, float64(s.bytes)/mega)
		}
		if last.at-first.at >= slopeMinimum {
			perMinute := slope(samples)
			g.PerMinute, g.Warning = perMinute/mega, perMinute > slopeWarning
		}
		if best, seen := longest[l.name]; !seen || g.Seconds > best.Seconds || g.Seconds == best.Seconds && g.PID < best.PID {
			longest[l.name] = g
		}
	}
	var out []Growth
	for _, name := range slices.Sorted(maps.Keys(longest)) {
		out = append(out, longest[name])
	}
	return out
}

// slope returns the slope of the least squares line through the samples after
// the warm-up, in bytes a minute.
func slope(samples []sample) float64 {
	var n, sx, sy, sxx, sxy float64
	for _, s := range samples {
		if s.at-samples[0].at < slopeSkip {
			continue
		}
		x, y := s.at.Minutes(), float64(s.bytes)
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	if d := n*sxx - sx*sx; d > 0 {
		return (n*sxy - sx*sy) / d
	}
	return 0
}

// checkGrowth checks every process against the memory bound.
func (r *Runner) checkGrowth() {
	bound := float64(memoryBound) / mega
	if r.cfg.Raced {
		bound *= racedFactor
	}
	for _, g := range r.memory.growth() {
		r.oracle.Expect(checkMemory, g.MostMB <= bound, "%s (pid %d) had %.0f MB resident; the bound is %.0f", g.Name, g.PID, g.MostMB, bound)
	}
}
