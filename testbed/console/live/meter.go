package live

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"conclave/testbed/check"
	"conclave/testbed/console"
)

const (
	pointsKept = 120              // seconds that are shown
	valueKept  = 30 * time.Second // how long a published value is remembered
)

// meter measures how long values take from their publication to each subscriber.
type meter struct {
	mu        sync.Mutex // guards the rest
	began     map[string]time.Time
	seen      map[[2]string]int // by subscriber and tag: the newest value that it has seen
	took      []time.Duration   // in this second
	updates   int
	pushes    int
	points    map[int64]console.Point // by their second
	rates     [2]float64              // updates and pushes in the last second
	swept     time.Time
	pointedAt time.Time
}

func newMeter() *meter {
	return &meter{began: map[string]time.Time{}, seen: map[[2]string]int{}, points: map[int64]console.Point{}}
}

// measured passes what clients do and see on to a recorder, and measures it.
type measured struct {
	*check.Recorder
	meter *meter
}

func (m measured) Op(o check.Op) {
	m.meter.note(o)
	m.Recorder.Op(o)
}

// note notes a value that is about to be published, or a list that a subscriber was
// given.
func (m *meter) note(o check.Op) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	switch o.Kind {
	case check.OpPublish:
		for _, v := range o.Values {
			m.began[v] = now
			m.updates++
		}
	case check.OpPush:
		m.pushes++
		for _, v := range o.Values {
			tag, n, ok := check.ParseValue(v)
			if k := [2]string{o.Client, tag}; ok && n > m.seen[k] {
				m.seen[k] = n
				if since, known := m.began[v]; known {
					m.took = append(m.took, now.Sub(since))
				}
			}
		}
	}
}

// second ends a second: it adds a point and forgets old values.
func (m *meter) second(now time.Time, missing int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pointedAt.IsZero() {
		m.pointedAt = now.Add(-time.Second)
	}
	slices.Sort(m.took)
	p := console.Point{At: now.UnixMilli(), Pushes: m.pushes, Missing: missing}
	if n := len(m.took); n > 0 {
		p.P50, p.P99 = milliseconds(m.took[(n-1)/2]), milliseconds(m.took[(99*n+99)/100-1])
	}
	passed := now.Sub(m.pointedAt).Seconds()
	m.rates = [2]float64{round(float64(m.updates) / passed), round(float64(m.pushes) / passed)}
	m.points[now.Unix()] = p
	delete(m.points, now.Unix()-pointsKept)
	m.took, m.updates, m.pushes, m.pointedAt = nil, 0, 0, now
	if now.Sub(m.swept) > valueKept {
		m.swept = now
		for v, at := range m.began {
			if now.Sub(at) > valueKept {
				delete(m.began, v)
			}
		}
	}
}

// restart forgets which values subscribers have seen: their names are used again.
func (m *meter) restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.began)
	clear(m.seen)
}

// show returns the rates and the points.
func (m *meter) show() (updates, pushes float64, points map[string]console.Point) {
	m.mu.Lock()
	defer m.mu.Unlock()
	points = map[string]console.Point{}
	for second, p := range m.points {
		points[strconv.FormatInt(second, 10)] = p
	}
	return m.rates[0], m.rates[1], points
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()/10) / 100 }

func round(f float64) float64 { return float64(int(f*10+0.5)) / 10 }
