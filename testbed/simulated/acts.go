package simulated

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"conclave/internal/inprocess"
	"conclave/internal/trace"
	"conclave/meta/metaclient"
	"conclave/testbed"
	"conclave/testbed/outside"
)

// Do executes one action of a scenario.
func (c *Cluster) Do(ctx context.Context, a testbed.Action) error {
	switch a.Verb {
	case testbed.Kill:
		if !c.killClients(a.Node) {
			c.kill(a.Node)
		}
	case testbed.Stop:
		c.stop(a.Node)
	case testbed.Start:
		if p := c.process(a.Node); p != nil && p.advertise != "" {
			c.kill(a.Node) // it was started at a wrong address
		}
		return c.start(a.Node, a.Node)
	case testbed.StartWrong:
		if strings.HasPrefix(a.Node, "meta-") || a.Node == testbed.Database {
			return fmt.Errorf("%s: %w", a, testbed.ErrUnsupported)
		}
		return c.startAt(a.Node, a.Node, nowhere)
	case testbed.ClosePort:
		c.net.ClosePort(a.Node)
	case testbed.OpenPort:
		c.net.OpenPort(a.Node)
	case testbed.Twin:
		return c.start(a.Node, a.Node+twin)
	case testbed.Pause:
		c.net.Pause(a.Node)
	case testbed.Resume:
		c.net.Resume(a.Node)
	case testbed.Hold:
		c.gate.Hold(a.Node, a.Point)
	case testbed.HoldOne:
		c.gate.HoldOne(a.Node, a.Point)
	case testbed.Release:
		c.gate.Release(a.Node, a.Point)
	case testbed.Unguard:
		c.unguarded.Store(true)
	case testbed.Skew:
		c.mu.Lock()
		c.clocks[a.Node] = a.By
		c.mu.Unlock()
	case testbed.Cut, testbed.CutOne, testbed.Slow, testbed.Mend, testbed.Reset, testbed.HalfOpen, testbed.LoseNext:
		c.note(a)
		for _, peer := range c.peers(a) {
			c.changeLink(a, peer)
		}
	case testbed.Refuse, testbed.Accept:
		c.mu.Lock()
		defer c.mu.Unlock()
		if delete(c.refusals, a.Of); a.Verb == testbed.Refuse {
			c.refusals[a.Of] = a.Number
		}
	case testbed.Resign:
		if m := c.meta(a.Node); m == nil || !leads(m) {
			return nil
		}
		return c.command(ctx, a.Node, a)
	case testbed.Quit, testbed.Join:
		return c.command(ctx, a.Node, a)
	default:
		return c.command(ctx, "", a)
	}
	return nil
}

// held returns how many goroutines of a node wait at a point.
func (c *Cluster) held(node string, at trace.Kind) int { return c.gate.Held(node, at) }

// command carries out a command of an operator at the named meta, or at any if name is
// empty.
func (c *Cluster) command(ctx context.Context, name string, a testbed.Action) (err error) {
	done := false
	err = c.operate(ctx, name, func(ctx context.Context, t *metaclient.Admin) (err error) {
		done, err = outside.Command(ctx, t, a, c.address(a.Node))
		return err
	})
	if !done && err == nil {
		return fmt.Errorf("%s: %w", a.Verb, testbed.ErrUnsupported)
	}
	return err
}

// nowhere is an address at which nothing listens.
const nowhere = "nowhere:1"

// partial asks the data nodes for slots that are served without a session.
func (c *Cluster) partial(ctx context.Context) (n int) {
	_ = c.operate(ctx, "", func(ctx context.Context, t *metaclient.Admin) error {
		for _, p := range c.processes() {
			if strings.HasPrefix(p.host, "data-") && c.process(p.host) == p && c.net.Awake(p.host) == nil {
				slots, _ := t.PartialSlots(ctx, c.address(p.host)) // a node that does not answer shows none
				n += slots
			}
		}
		return nil
	})
	return n
}

// twin is the suffix of the host name of a node's twin.
const twin = "-twin"

// peers returns the other hosts of an action on the links of a.Node.
func (c *Cluster) peers(a testbed.Action) []string {
	if a.Peer != "" {
		return []string{a.Peer}
	}
	all := append(c.hosts(), c.clients.Names()...)
	return slices.DeleteFunc(all, func(name string) bool { return name == a.Node })
}

// operateTimeout limits an operator's action.
const operateTimeout = 2 * time.Second

// operate calls do with the client of the command-line tool, for the named
// meta, or for all metas that run if name is empty; a meta that does not lead
// forwards to the leader.
func (c *Cluster) operate(ctx context.Context, name string, do func(context.Context, *metaclient.Admin) error) error {
	ctx, cancel := context.WithTimeout(ctx, operateTimeout)
	defer cancel()
	var metas []string
	for _, p := range c.processes() {
		m, ok := p.Server.(*inprocess.Meta)
		if ok && c.process(p.host) == p && m.Up() && c.net.Awake(p.host) == nil && (name == "" || name == p.host) {
			metas = append(metas, p.host+metaPort)
		}
	}
	operator := c.operator()
	defer c.leaves(operator) // the tool's process ends, and leaves no connections
	web := outside.HTTP(c.net.Host(operator).DialContext, nil)
	return do(ctx, metaclient.NewAdmin(metaclient.AdminConfig{Metas: metas, HTTP: web}))
}

// operator returns the host of an operator without a request in progress: two may act at
// the same moment.
func (c *Cluster) operator() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := "operator"
	for n := 2; c.operators[name]; n++ {
		name = fmt.Sprintf("operator-%d", n)
	}
	c.operators[name] = true
	return name
}

func (c *Cluster) leaves(operator string) {
	c.net.Kill(operator)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.operators, operator)
}
