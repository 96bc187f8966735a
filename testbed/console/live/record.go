package live

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"conclave/internal/sleep"
	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/console"
	"conclave/testbed/scenario"
)

const (
	maxEntries  = 400_000                // of one history
	beginPause  = 10 * time.Second       // before clients that could not start are tried again
	checkPause  = 2 * time.Second        // between two checks, at least
	checkShare  = 20                     // of the time, one part is used for checks
	readBehind  = 300 * time.Millisecond // an event may reach its file so much later
	levelFactor = 5                      // between two levels of load
	maxLevel    = 4
	beforeShown = 14 // entries before a violation
)

// record has the history that is being recorded, its clients, and what the
// checkers have found.
type record struct {
	cluster testbed.Cluster
	meter   *meter
	size    testbed.Size
	boot    string                        // a part of the names of clients and dataIDs, which differs between two consoles
	traced  bool                          // the nodes' events are recorded
	aside   func(check func(), must bool) // if not nil, they are recorded when they happen
	limit   int                           // of the entries of a history
	quiet   func() bool                   // reports whether no fault lasts and no scenario is played: a history should end then

	mu       sync.Mutex // guards the rest
	rec      *check.Recorder
	played   *check.Recorder // of the scenario that is played; nil: none is
	until    time.Time       // everything until then was checked; zero: nothing was
	traffic  *scenario.Traffic
	working  context.Context // of the traffic
	level    int
	early    []claimed // events before the first history
	read     time.Time // until when all events were read
	lost     error     // why they cannot be read
	observed check.Observation
	missing  []string
	closed   map[string]console.Promise // of histories that have ended
	promises map[string]console.Promise
	broken   *console.Broken
	brokenAt time.Time
	checking *console.Checking
	failed   error // why there are no clients
}

// claimed is an event of a node.
type claimed struct {
	at time.Time
	trace.Claim
}

// run records histories, one after the other, until ctx ends.
func (r *record) run(ctx context.Context) {
	for group := 1; ctx.Err() == nil; group++ {
		r.history(ctx, group)
	}
}

// history records one history and checks it, until it is long or ctx ends.
func (r *record) history(ctx context.Context, group int) {
	work, stop := context.WithCancel(ctx)
	defer stop()
	name := fmt.Sprintf("%s-%d.", r.boot, group)
	clients := newScoped(r.cluster, "client-"+name, nil)
	r.meter.restart()
	rec := r.resume()
	traffic := scenario.NewTraffic(scenario.Load{
		Clients: 4, Names: 3, Every: 400 * time.Millisecond, Replace: 5 * time.Second, Group: name,
	}, clients, measured{rec, r.meter}, uint64(group))
	r.mu.Lock()
	r.working, r.level = work, 1
	r.mu.Unlock()
	err := traffic.Begin(work)
	r.mu.Lock()
	if r.failed = err; err == nil {
		r.traffic = traffic
	}
	r.mu.Unlock()
	began := time.Now()
	if err == nil {
		r.checks(ctx, rec, began)
	} else {
		_ = sleep.For(ctx, beginPause) // whatever it is, it lasts for a while
	}
	r.mu.Lock()
	r.traffic, r.missing = nil, nil
	if r.level > 1 {
		rec.Fault(check.Fault{Action: testbed.Action{Verb: testbed.EndBurst}, Undo: true})
		r.level = 1
	}
	r.mu.Unlock()
	ended := time.Now()
	stop()
	traffic.Wait()
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = clients.Close(limit)          // a session that does not answer notices their end by itself
	_ = sleep.For(ctx, 2*time.Second) // what the clients have withdrawn is in no later history
	if ctx.Err() == nil && (err == nil || rec.Len() > r.limit) {
		r.check(rec, began, ended) // what was recorded since the last check, but for the end of the clients
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = r.promises
}

// resume begins a history, where the checks of the one before have ended.
func (r *record) resume() *check.Recorder {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rec == nil {
		r.rec = check.NewRecorder("console", r.size)
		for _, c := range r.early {
			r.rec.Late(c.at, c.Claim)
		}
		r.early = nil
	} else {
		r.rec, r.observed = r.rec.Resume(r.until), check.Observation{}
	}
	return r.rec
}

// join begins the history of a scenario that is played.
func (r *record) join(of scenario.Scenario) *check.Recorder {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.played = r.rec.Join(of.Name, of.Cluster)
	return r.played
}

// left ends what join has begun.
func (r *record) left() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.played = nil
}

// checks checks a history again and again, until it is long or ctx ends.
func (r *record) checks(ctx context.Context, rec *check.Recorder, began time.Time) {
	pause := checkPause
	for sleep.For(ctx, pause) == nil {
		from := time.Now()
		r.check(rec, began, time.Time{})
		if n := rec.Len(); n > r.limit && r.quiet() || n > 2*r.limit {
			return
		}
		pause = max(checkPause, checkShare*time.Since(from))
	}
}

// check runs every checker on what is recorded. ended is when the clients have ended,
// if they have; then what was recorded since the last check would not be checked later.
func (r *record) check(rec *check.Recorder, began, ended time.Time) {
	now := time.Now()
	if r.aside != nil {
		r.aside(func() { r.checkUntil(rec, began, ended, now) }, !ended.IsZero())
		return
	}
	r.checkUntil(rec, began, ended, now)
}

func (r *record) checkUntil(rec *check.Recorder, began, ended, now time.Time) {
	from := time.Now()
	r.mu.Lock()
	until := now.Add(-readBehind)
	if r.traced && r.aside == nil && r.read.Before(until) {
		until = r.read
	}
	slots := r.size.Slots
	r.mu.Unlock()
	h, _ := rec.SoFar(r.traced, nil)
	h.Cluster.Slots = slots
	entries := len(h.Entries)
	h.Entries = slices.DeleteFunc(h.Entries, func(e check.Entry) bool {
		at := h.Began.Add(e.At)
		return at.After(until) || e.Op != nil && !ended.IsZero() && at.After(ended)
	})
	verdicts := check.Run(h)
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]console.Promise{}
	maps.Copy(all, r.closed)
	for _, v := range verdicts {
		p := console.Promise{ID: v.ID, Says: v.Says, Checks: v.Checks, Broken: len(v.Violations), Since: began.UnixMilli()}
		if before, had := r.closed[v.ID]; had {
			p.Checks, p.Broken, p.Since = p.Checks+before.Checks, p.Broken+before.Broken, before.Since
		}
		all[v.ID] = p
		for _, x := range v.Violations {
			if at := h.Began.Add(x.At); r.broken == nil || at.Before(r.brokenAt) {
				r.brokenAt = at
				r.broken = &console.Broken{At: at.UnixMilli(), ID: v.ID, What: x.What, Evidence: x.Evidence, Before: entriesBefore(h, x.At)}
			}
		}
	}
	r.promises, r.until = all, until
	before := ""
	if len(r.closed) > 0 {
		before = "; what was recorded before is checked, and no longer kept"
	}
	r.checking = &console.Checking{
		Until: until.UnixMilli(), Entries: entries, TookMs: time.Since(from).Milliseconds(),
		How: fmt.Sprintf("the checkers of package check over everything since %s, again after %d times the time that they take%s", began.Format("15:04:05"), checkShare, before),
	}
}

// entriesBefore returns the last entries until a moment, as text.
func entriesBefore(h *check.History, at time.Duration) (out []string) {
	n := 0
	for n < len(h.Entries) && h.Entries[n].At <= at {
		n++
	}
	for _, e := range h.Entries[max(0, n-beforeShown):n] {
		out = append(out, e.String())
	}
	return out
}

// current returns the recorder; nil before the first history.
func (r *record) current() *check.Recorder {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rec
}

// histories returns the histories that are being recorded: the console's, and that of a
// scenario that is played.
func (r *record) histories() []*check.Recorder {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc([]*check.Recorder{r.rec, r.played}, func(rec *check.Recorder) bool { return rec == nil })
}

// event records an event of a node.
func (r *record) event(at time.Time, c trace.Claim) {
	r.mu.Lock()
	defer r.mu.Unlock() // so that it is in one of two histories
	if r.played != nil && r.aside != nil {
		r.played.Event(c)
	}
	switch {
	case r.rec != nil:
		r.rec.Late(at, c)
	case r.aside != nil:
		r.early = append(r.early, claimed{at, c})
	}
}

// took notes whether all events until a moment were read, and why events cannot be
// read; nil: they can.
func (r *record) took(until time.Time, all bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost = err; all {
		r.read = until
	}
}

// look records what is observed, if it has changed, and looks at the clients.
func (r *record) look(s testbed.Snapshot) {
	r.mu.Lock()
	traffic := r.traffic
	now := check.Summarize(s, nil)
	r.size.Slots = max(r.size.Slots, len(s.Table.Slots)) // there may have been no table at first
	changed := !reflect.DeepEqual(now, r.observed)
	r.observed = now
	if r.rec != nil && changed {
		r.rec.Observe(now)
	}
	r.mu.Unlock()
	if traffic == nil {
		return
	}
	missing := traffic.Look()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.traffic == traffic {
		r.missing = missing
	}
}

// note records an action that was carried out in a history.
func note(rec *check.Recorder, at time.Time, a testbed.Action, err error) {
	if err == nil && !a.EndsFault() {
		rec.Earlier(at, check.Fault{Action: a})
		return
	}
	rec.Fault(check.Fault{Action: a, Undo: a.EndsFault(), Err: err})
}

// setLevel changes the load: each level has levelFactor times as many changes.
func (r *record) setLevel(by int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	to := r.level + by
	switch {
	case r.traffic == nil:
		return fmt.Errorf("no clients are at work")
	case to < 1 || to > maxLevel:
		return fmt.Errorf("the load has level %d of %d", r.level, maxLevel)
	}
	factor := 1
	for range to - 1 {
		factor *= levelFactor
	}
	if r.level > 1 {
		r.traffic.EndBurst()
		r.rec.Fault(check.Fault{Action: testbed.Action{Verb: testbed.EndBurst}, Undo: true})
	}
	if to > 1 {
		r.traffic.Burst(r.working, testbed.Action{Factor: factor})
		r.rec.Fault(check.Fault{Action: testbed.Action{Verb: testbed.Burst, Factor: factor}})
	}
	r.level = to
	return nil
}

// figures returns figures of the history until now.
func (r *record) figures(names ...string) []check.Figure {
	rec := r.current()
	if rec == nil {
		return nil
	}
	h, _ := rec.SoFar(r.traced, nil)
	return check.Figures(h, names)
}

// show fills in the state's part of it.
func (r *record) show(out *console.State) {
	updates, pushes, points := r.meter.show()
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &console.Load{Level: r.level, Updates: updates, Pushes: pushes, Missing: len(r.missing), Lacking: r.missing}
	if r.traffic != nil {
		l.Clients = 4
	}
	if r.lost != nil {
		out.Watching = "Nothing newer is checked: the nodes' events cannot be read: " + r.lost.Error()
	}
	if r.failed != nil { // what is missing is not known
		l, out.Watching = nil, "Nothing is checked: the console's clients could not start: "+r.failed.Error()
	}
	out.Promises, out.Checking, out.Broken, out.Load, out.Points = maps.Clone(r.promises), r.checking, r.broken, l, points
}
