package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"conclave"
	"conclave/internal/sleep"
	"conclave/testbed"
	"conclave/testbed/load"
	"conclave/testbed/outside"
)

// size is what is measured; what a measurement does not vary is 0.
type size struct{ connections, registrations, factor, names int }

func (s size) String() string {
	var parts []string
	for _, x := range []struct {
		n    int
		what string
	}{{s.connections, "connections"}, {s.registrations, "registrations"}, {s.factor, "times the capacity"}, {s.names, "names"}} {
		if x.n > 0 {
			parts = append(parts, number(float64(x.n))+" "+x.what)
		}
	}
	return strings.Join(parts, ", ")
}

// suffix is what the names of the size's figures end with.
func (s size) suffix() (out string) {
	for _, n := range []int{s.connections, s.registrations, s.factor, s.names} {
		if n > 0 {
			out += fmt.Sprint("-", n)
		}
	}
	return out
}

// leastRegistrations is the smallest number of registrations that a bound allows:
// each of the 200 connections has some.
const leastRegistrations = 1000

// fewConnections are those over which a number of registrations is spread.
const fewConnections = 20

func manyRegistrations(c Config) []size { return registrationsOver(c, 1, fewConnections, 200) }

func moreRegistrations(c Config) []size { return registrationsOver(c, fewConnections) }

func registrationsOver(c Config, connections ...int) (out []size) {
	for _, over := range connections {
		for _, n := range within(c.MaxRegistrations, 10_000, 100_000, 1_000_000) {
			out = append(out, size{connections: over, registrations: n})
		}
	}
	return out
}

func manyConnections(c Config) (out []size) {
	for _, n := range within(c.MaxConnections, 100, 1_000, 5_000, 10_000) {
		out = append(out, size{connections: n})
		if n == 5_000 {
			out = append(out, size{connections: n, names: 1_000})
		}
	}
	return out
}

func overloads(c Config) (out []size) {
	for _, factor := range []int{1, 2, 10} {
		out = append(out, size{connections: fewConnections, registrations: within(c.MaxRegistrations, 100_000)[0], factor: factor})
	}
	return out
}

// within returns the sizes up to a bound, or the bound alone if all are larger. A
// bound of 0 is none.
func within(bound int, sizes ...int) []int {
	out := slices.DeleteFunc(sizes, func(n int) bool { return bound != 0 && n > bound })
	if len(out) == 0 {
		out = []int{bound}
	}
	return out
}

// measure takes a measurement: with a size on a new cluster, which is ended then.
func (r *run) measure(ctx context.Context, m measurement, s size) (err error) {
	if m.sizes == nil {
		return m.take(r, ctx)
	}
	limited, cancel := context.WithTimeoutCause(ctx, r.Limit, fmt.Errorf("more than the limit of %s", r.Limit))
	defer cancel()
	defer func() {
		if err != nil && errors.Is(err, limited.Err()) {
			err = fmt.Errorf("%w: %w", context.Cause(limited), err)
		}
	}()
	another, err := r.Another(limited, r.Secured)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	defer func() { err = errors.Join(err, another.Close(context.WithoutCancel(ctx))) }()
	if err := another.AwaitReady(limited); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	cfg, err := another.ClientConfig("bench")
	if err != nil {
		return err
	}
	point := *r
	point.cluster, point.of, point.size, point.pool = newCluster(another), m.name, s, r.newPool(cfg)
	defer point.close()
	defer func() { point.pool.Kill() }()
	point.before = point.counts(limited)
	return m.take(&point, limited)
}

// count reports what has happened on the size's cluster since before, and its memory.
func (r *run) count(ctx context.Context, wanted Limit) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second) // also after the limit
	defer cancel()
	var notes []string
	now := r.counts(ctx)
	for _, what := range []string{clientsGone, elections, evictions} {
		if n, known := now[what]; known {
			notes = append(notes, fmt.Sprintf("%s: %s", what, number(n-r.before[what])))
		}
	}
	for _, role := range []string{"meta", "session", "data"} {
		if mib, err := r.memory(ctx, role); err == nil {
			notes = append(notes, fmt.Sprintf("memory of %s: %s MiB", role, number(mib)))
		}
	}
	r.report(Figure{Name: "bounced", What: "sessions lost by clients", Unit: "times", Note: strings.Join(notes, ", ")}, load.One(float64(r.pool.Lost())), wanted)
}

// ratioTo is the number of registrations to whose rate that of more is compared, and
// wantedRatio what is wanted of ten times as many.
const (
	ratioTo     = 100_000
	wantedRatio = 0.85
)

// counted is a measurement after which count is called.
func counted(take func(*run, context.Context) error) func(*run, context.Context) error {
	return func(r *run, ctx context.Context) error {
		err := take(r, ctx)
		r.count(ctx, Limit{})
		return err
	}
}

// registered is the prefix of the dataIds of store.
const registered = "reg"

// store measures how fast registrations of 100 bytes are stored, and what one costs the
// cluster.
func (r *run) store(ctx context.Context) error {
	if err := r.pool.Connect(ctx, r.size.connections); err != nil {
		return err
	}
	n := r.size.registrations
	used, began := r.processorTime(ctx), time.Now()
	_, latency, err := r.pool.Publish(ctx, n, load.DataIDs(registered), load.Value)
	rate := float64(n) / time.Since(began).Seconds()
	r.report(Figure{Name: "stored", What: "publish to stored"}, latency.Values(), Limit{})
	if err != nil {
		return err
	}
	r.report(Figure{Name: "rate", What: "registrations stored", Unit: "per s"}, load.One(rate), Limit{})
	if used = r.processorTime(ctx) - used; used > 0 { // what one costs, also where others use the machine
		r.report(Figure{Name: "cost", What: "processor time of the cluster for each", Unit: "us"}, load.One(float64(used.Microseconds())/float64(n)), Limit{})
	}
	if n == ratioTo {
		r.rates[r.size.connections] = rate
	} else if first := r.rates[r.size.connections]; first > 0 {
		r.report(Figure{Name: "ratio", What: "its ratio to " + number(ratioTo) + " registrations", Unit: "of 1"}, load.One(rate/first), Limit{AtLeast: wantedRatio})
	}
	return nil
}

// idleFor is how long connections are idle before memory is read.
const idleFor = 5 * time.Second

// growConnections measures how long new connections that open at once take until each
// is served, what an idle one costs, and how long they take when a session is killed.
func (r *run) growConnections(ctx context.Context) error {
	wanted := func(l Limit) Limit {
		if r.size.connections == 5_000 {
			return l
		}
		return Limit{}
	}
	err := r.connect(ctx, wanted)
	r.count(ctx, wanted(Limit{Max: 0.5}))
	if err != nil {
		return err
	}
	start := time.Now()
	if err := r.do(ctx, testbed.Kill, "session-1"); err != nil {
		return err
	}
	if err := r.pool.ServeAgain(ctx, "again", cmp.Or(r.size.names, r.size.connections)); err != nil {
		return fmt.Errorf("session-1 was killed: %w", err)
	}
	r.report(Figure{Name: "killed", What: "one session killed, all served again"}, one(time.Since(start)), wanted(Limit{Max: 5000}))
	return nil
}

func (r *run) connect(ctx context.Context, wanted func(Limit) Limit) error {
	n := r.size.connections
	before, err := r.memory(ctx, "session")
	if err != nil {
		return err
	}
	served := load.NewDist()
	start := time.Now()
	err = r.pool.ServeAll(ctx, "conn", n, cmp.Or(r.size.names, n), served.Add)
	took := one(time.Since(start))
	r.report(Figure{Name: "served", What: "each until its first push"}, served.Values(), Limit{})
	if err != nil {
		return fmt.Errorf("%d of %d connections had their push: %w", served.Values().N, n, err)
	}
	r.report(Figure{Name: "all", What: "until all are served"}, took, wanted(Limit{Max: 5000}))
	if err := sleep.For(ctx, idleFor); err != nil {
		return err
	}
	after, err := r.memory(ctx, "session")
	if err == nil {
		r.report(Figure{Name: "idle", What: "memory of the sessions for each, idle", Unit: "KiB"}, load.One((after-before)*1024/float64(n)), Limit{})
	}
	return err
}

// largest returns a limit that holds for the largest number of registrations.
func (r *run) largest(l Limit) Limit {
	if r.size.registrations < 1_000_000 {
		return Limit{}
	}
	return l
}

// growLosses measures what it takes to make good the loss of a data node and then of a
// session, and counts pushes of lists that lack a value that was registered.
func (r *run) growLosses(ctx context.Context) error {
	err := r.store(ctx)
	var missing atomic.Int64
	if err == nil {
		err = r.watchSome(ctx, &missing)
	}
	if err == nil {
		err = r.loseData(ctx)
	}
	if err == nil {
		err = r.loseSession(ctx)
	}
	r.report(Figure{Name: "missing", What: "pushes without the value", Unit: "pushes", Target: "0"}, load.One(float64(missing.Load())), Limit{Max: 0.5})
	return err
}

// watched is how many registrations of a load are watched while nodes are killed.
const watched = 1000

// watchSome subscribes to some of the registrations at each session, with clients of
// its own, and returns when all were pushed. missing counts the pushes after the first
// one that have no value.
func (r *run) watchSome(ctx context.Context, missing *atomic.Int64) error {
	n := r.size.registrations
	some := min(n, watched)
	first := load.NewArrivals(2 * some)
	for range 2 { // the clients of the load are an even number
		c, err := r.pool.One("watcher")
		if err != nil {
			return err
		}
		for i := range some {
			var seen bool // callbacks of one subscription are sequential
			err := c.Subscribe(load.DataID(registered, i*(n/some)), func(d conclave.Datum) {
				switch {
				case len(d.Values) == 0 && seen:
					missing.Add(1)
				case len(d.Values) > 0 && !seen:
					seen = true
					first.One()
				}
			})
			if err != nil {
				return err
			}
		}
	}
	return first.Await(ctx, "subscriptions had no push")
}

func (r *run) loseData(ctx context.Context) error {
	if err := r.settled(ctx); err != nil {
		return err
	}
	took, err := r.killData(ctx, "data-1")
	if err != nil {
		return err
	}
	r.report(Figure{Name: "data", What: "data node killed, all its slots served"}, one(took), r.largest(Limit{Max: 1000}))
	return r.stable(ctx)
}

func (r *run) loseSession(ctx context.Context) error {
	const victim, publishers = "session-1", "conclave_session_publishers"
	at := r.Addresses()[victim]
	others := slices.DeleteFunc(r.addresses("session"), func(a string) bool { return a == at })
	moved, err := r.metric(ctx, publishers, at)
	if err != nil {
		return err
	}
	all, err := r.metric(ctx, publishers, others...)
	if err != nil {
		return err
	}
	all += moved
	start := time.Now()
	if err := r.do(ctx, testbed.Kill, victim); err != nil {
		return err
	}
	err = await(ctx, 20*time.Millisecond, "the other session to have stored all", func() bool {
		has, err := r.metric(ctx, publishers, others...)
		if err != nil || has < all {
			return false
		}
		unsent, err := r.metric(ctx, "conclave_session_unsent_bytes", others...)
		return err == nil && unsent == 0
	})
	if err == nil {
		r.report(Figure{
			Name: "session", What: "session killed, all its registrations stored by the other", Note: number(moved) + " registrations",
		}, one(time.Since(start)), r.largest(Limit{Max: 15_000}))
	}
	return err
}

// The base load, a part of the capacity, is offered before and after the overload.
const (
	baseLoad = 0.5
	baseFor  = 5 * time.Second
)

// overload measures the capacity, offers a multiple of it, and then waits until the base
// load is served as before.
func (r *run) overload(ctx context.Context) error {
	if err := r.pool.Connect(ctx, r.size.connections); err != nil {
		return err
	}
	made, _, err := r.pool.Publish(ctx, r.size.registrations, load.DataIDs("overload"), load.Value)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	lanes := load.NewLanes(made)
	defer lanes.Wait()
	defer cancel()
	capacity, err := lanes.Capacity(ctx, min(r.For, 10*time.Second))
	if err != nil {
		return fmt.Errorf("capacity: %w", err)
	}
	r.report(Figure{Name: "capacity", What: "updates stored in a closed loop", Unit: "per s"}, load.One(capacity), Limit{})
	if err := sleep.For(ctx, time.Second); err != nil { // what was in progress ends
		return err
	}
	base, _ := lanes.Offer(ctx, baseLoad*capacity, baseFor)
	before := base.Rate()
	r.before = r.counts(ctx)

	used := outside.ProcessorTime(os.Getpid())
	over, missed := lanes.Offer(ctx, float64(r.size.factor)*capacity, r.For)
	took := over.Lasted.Seconds()
	used = outside.ProcessorTime(os.Getpid()) - used
	sent, goodput := over.Sent.Load(), float64(over.Answers.Load())/took
	share := "not known"
	if used > 0 {
		share = fmt.Sprintf("%.0f %%", 100*used.Seconds()/(took*float64(runtime.NumCPU())))
	}
	back, err := lanes.Recovery(ctx, baseLoad*capacity, before)
	stored := sent - over.Open.Load()
	r.report(Figure{
		Name: "goodput", What: "answers, as a part of the capacity", Unit: "of 1",
		Note: fmt.Sprintf("offered %s per s, not sent %.0f %%, merged %.0f %%, refused %d, unstored %d; the load's share of the processors: %s",
			number(float64(sent)/took), percent(int64(missed), sent+int64(missed)), percent(stored-over.Answers.Load(), stored),
			over.Refused.Load(), over.Open.Load(), share),
	}, load.One(goodput/capacity), Limit{AtLeast: 0.9})
	r.report(Figure{Name: "stored", What: "due to stored"}, over.Latency.Values(), Limit{})
	if err == nil {
		r.report(Figure{Name: "recovered", What: "until the rate is as before: " + number(before) + " per s"}, one(back), Limit{})
	}
	return err
}

func percent(part, of int64) float64 {
	if of == 0 {
		return 0
	}
	return 100 * float64(part) / float64(of)
}
