package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"conclave"
	"conclave/client"
	"conclave/internal/sleep"
	"conclave/testbed/bench"
	"conclave/testbed/load"
	"conclave/testbed/outside"
)

// take takes a measurement of a registry once, and calls add with each value.
type take func(ctx context.Context, p peer, add func(unit string, v float64)) error

// rows has the measurements by their names.
func rows(c bench.Comparison) map[string]take {
	return map[string]take{
		"rest":            rest(c.Calm / time.Duration(c.N)),
		"update-1":        updates(1, 1),
		"update-100":      updates(1, 100),
		"update-of-10000": updates(10_000, 20),
		"registrations":   registrations,
		"leader-killed":   killed,
	}
}

// updates measures the time from an update of one of many instances until each watcher's
// callback has it. The instance has a connection of its own, as the program that it is of:
// a client of Nacos sends all instances of its connection with each change.
func updates(instances, watchers int) take {
	return func(ctx context.Context, p peer, add func(string, float64)) error {
		pool, err := p.connected(ctx, 2+watchers)
		defer leave(pool.Clients)
		if err != nil {
			return err
		}
		service := unused()
		of := func(int) string { return service }
		if _, _, err := pool.Clients[:1].Publish(ctx, instances-1, of, load.Value); err != nil {
			return err
		}
		own, _, err := pool.Clients[1:2].Publish(ctx, 1, of, load.Value)
		if err != nil {
			return err
		}
		type update struct {
			value string
			at    time.Time
			add   func(string, float64)
			seen  *load.Arrivals
		}
		var newest atomic.Pointer[update]
		for _, c := range pool.Clients[2:] {
			var last *update // callbacks are sequential
			err := c.Subscribe(service, func(d conclave.Datum) {
				now := time.Now()
				if u := newest.Load(); u != nil && u != last && slices.Contains(d.Values, u.value) {
					u.add("ms", float64(now.Sub(u.at))/float64(time.Millisecond))
					last = u
					u.seen.One()
				}
			})
			if err != nil {
				return err
			}
		}
		one := func(i int, add func(string, float64)) error {
			u := &update{load.Value(instances + i), time.Now(), add, load.NewArrivals(watchers)}
			newest.Store(u)
			if err := own[0].Update([]string{u.value}); err != nil {
				return err
			}
			if err := cmp.Or(own[0].Stored(ctx), u.seen.Await(ctx, "watchers have not seen an update")); err != nil {
				return err
			}
			return sleep.For(ctx, 20*time.Millisecond) // longer than Conclave's push window
		}
		if err := one(0, func(string, float64) {}); err != nil { // not counted: watches begin
			return err
		}
		return p.costing(add, "ms of processor", 1000*updatesAtOnce, func() error {
			for i := range updatesAtOnce {
				if err := one(1+i, add); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// updatesAtOnce is how many updates a turn has.
const updatesAtOnce = 30

// registrations measures how many instances are stored in a second, 20 of each service.
func registrations(ctx context.Context, p peer, add func(string, float64)) error {
	const n, connections = 20_000, 20
	pool, err := p.connected(ctx, connections)
	defer leave(pool.Clients)
	if err != nil {
		return err
	}
	return p.costing(add, "us of processor", n, func() error {
		prefix, began := unused(), time.Now()
		_, _, err := pool.Publish(ctx, n, func(i int) string { return load.DataID(prefix, i/connections) }, load.Value)
		if err == nil {
			add("per s", n/time.Since(began).Seconds())
		}
		return err
	})
}

// rest measures the memory of the servers, a shared page of which counts once, and their
// share of a core.
func rest(calm time.Duration) take {
	return func(ctx context.Context, p peer, add func(string, float64)) error {
		var pss uint64
		for _, pid := range p.servers() {
			if server, err := procfs.NewProc(pid); err == nil {
				maps, _ := server.ProcSMapsRollup() // 0: not ours
				pss += maps.Pss
			}
		}
		if pss > 0 {
			add("MiB", float64(pss)/(1<<20))
		}
		return p.costing(add, "% of a core", float64(calm.Microseconds())/100, func() error { return sleep.For(ctx, calm) })
	}
}

// killed kills the leader, and measures the time until one of the registrations is stored
// that are sent every 5 ms from then on. It returns when all servers answer again.
func killed(ctx context.Context, p peer, add func(string, float64)) error {
	_, leader, err := p.settled(ctx)
	if err != nil {
		return err
	}
	was := listening(leader)
	if len(was) == 0 {
		return fmt.Errorf("no process of this machine is known to listen at %s", leader)
	}
	c, err := p.start(client.Config{Sessions: p.Addresses, Token: p.Token})
	if err != nil {
		return err
	}
	defer load.Leave(c)
	register := func(ctx context.Context) error {
		r, err := c.Publish(ctx, unused(), []string{load.Value(0)})
		if err != nil {
			return err
		}
		return r.Stored(ctx)
	}
	if err := register(ctx); err != nil { // it is connected
		return err
	}
	start := time.Now()
	if err := syscall.Kill(was[0], syscall.SIGKILL); err != nil {
		return err
	}
	trying, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	var tries sync.WaitGroup
	var first sync.Once
	stored := make(chan time.Duration, 1)
	for sleep.For(trying, 5*time.Millisecond) == nil {
		tries.Go(func() {
			one, cancel := context.WithTimeout(trying, time.Second)
			defer cancel()
			if register(one) == nil {
				first.Do(func() { stored <- time.Since(start) })
				stop()
			}
		})
	}
	tries.Wait()
	select {
	case after := <-stored:
		add("ms", float64(after)/float64(time.Millisecond))
	default:
		return errors.New("nothing was stored for a minute")
	}
	again, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = outside.Until(again, 100*time.Millisecond, func() (bool, error) {
		now := listening(leader)
		return len(now) > 0 && now[0] != was[0], nil
	})
	if err != nil {
		return fmt.Errorf("nothing has started the killed process at %s again: %w", leader, err)
	}
	_, _, err = p.settled(ctx)
	return err
}

// connected starts n clients, at the servers in turn, which are connected then.
func (p peer) connected(ctx context.Context, n int) (*load.Pool, error) {
	pool := load.NewPool(client.Config{Sessions: p.Addresses, Token: p.Token})
	pool.Start = p.start
	return pool, pool.Connect(ctx, n)
}

func leave(all load.Clients) {
	for _, c := range all {
		load.Leave(c)
	}
}

var started, names = time.Now().UnixNano(), new(atomic.Int64)

// unused returns a name that is new.
func unused() string { return fmt.Sprintf("beside-%d-%d", started, names.Add(1)) }

// costing calls do, and adds the processor time of the servers meanwhile, in so many
// microseconds.
func (p peer) costing(add func(string, float64), unit string, us float64, do func() error) error {
	servers := p.servers()
	before := processorTime(servers)
	err := do()
	if err == nil && len(servers) > 0 {
		add(unit, float64((processorTime(servers)-before).Microseconds())/us)
	}
	return err
}

// loadAverage returns that of the last minute; 0 without /proc.
func loadAverage() float64 {
	fs, _ := procfs.NewDefaultFS()
	if l, err := fs.LoadAvg(); err == nil {
		return l.Load1
	}
	return 0
}

func processorTime(pids []int) (sum time.Duration) {
	for _, pid := range pids {
		sum += outside.ProcessorTime(pid)
	}
	return sum
}

// servers returns the processes of the registry that are known.
func (p peer) servers() []int {
	return append(listening(slices.Concat(p.Addresses, p.Metas)...), p.PIDs...)
}

var pidOf = regexp.MustCompile(`pid=(\d+)`)

// listening returns the processes of this machine that listen at loopback addresses, or
// none if ss is not installed.
func listening(addresses ...string) (pids []int) {
	for _, a := range addresses {
		port, local := strings.CutPrefix(a, "127.0.0.1")
		if !local {
			continue
		}
		out, _ := exec.Command("ss", "-Hltnp", "sport = "+port).Output()
		if found := pidOf.FindSubmatch(out); found != nil {
			pid, _ := strconv.Atoi(string(found[1])) // digits
			pids = append(pids, pid)
		}
	}
	return pids
}
