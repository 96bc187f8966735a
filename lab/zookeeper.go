package lab

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"time"

	"conclave/lab/article004/zklatch"
	conclavesql "conclave/sql"
)

var zookeeperRule = Rule{
	Name: "zookeeper", From: "article 004 with numbered terms; lab/article004/zklatch",
	About: "A latch: a queue of sequential ephemeral nodes, with the term in a record beside it; each waiter watches the node before its own.",
	Own:   own, Fences: true, Tree: true,
	Weakness: "A killed leader's session lasts until its time-out: a broken connection does not end it.",
	migrate:  noMigration,
	start: func(_ context.Context, env *environment) (candidate, error) {
		conn, err := env.tree()
		if err != nil {
			return nil, err
		}
		writes, err := env.tree() // they do not count as cost
		if err != nil {
			return nil, err
		}
		strategy, err := zklatch.NewStrategy(zklatch.StrategyConfig{Tree: conn, Path: "/" + env.Lab})
		if err != nil {
			return nil, err
		}
		client := zklatch.NewClient(writes, zklatch.ClientConfig{})
		return env.elector(closingTree{strategy, conn, writes, client}, conn.Requests, func(ctx context.Context, _ *conclavesql.DB, term uint64) (bool, error) {
			return env.writeToTree(ctx, writes, client, term)
		})
	},
}

var curatorRule = Rule{
	Name: "curator", From: "article 004: Curator's LeaderLatch (40 s is ZooKeeper's maximum); lab/article004/zklatch, Latch",
	About:    "The first in a queue of sequential ephemeral nodes leads, as long as its connection is not broken.",
	Weakness: "A leadership has no number: a write that was sent before the session ended is not refused.",
	Own:      Times{Lease: 40 * time.Second, Beat: 40 * time.Second / 3, Check: 40 * time.Second / 3}, Tree: true,
	migrate: noMigration,
	start: func(_ context.Context, env *environment) (candidate, error) {
		conn, err := env.tree()
		if err != nil {
			return nil, err
		}
		client := zklatch.NewClient(conn, zklatch.ClientConfig{})
		latch := client.Latch("/"+env.Lab, env.ID().String())
		latch.Listen(zklatch.Listener{
			IsLeader:  func() { env.turns.Add(1); env.perceived.lead(0, time.Time{}) },
			NotLeader: func() { env.turns.Add(1); env.perceived.leave("the latch lost its leadership") },
		})
		c := env.loops(func(ctx context.Context) {
			_ = latch.Start() // cannot fail: it is new
			<-ctx.Done()
		}, func(ctx context.Context) error {
			env.perceived.leave("closed")
			latch.Close(ctx, zklatch.Silent) // deletes this candidate's node, which wakes the next waiter
			client.Close()
			return conn.Close()
		})
		c.leads = func() (uint64, bool) { return 0, latch.HasLeadership() }
		c.cost = func() (statements, turns uint64) { // the latch sleeps until a watch fires: a change is a turn
			return conn.Requests(), env.turns.Load()
		}
		return c, nil
	},
}

// writeToTree is a leader's guarded write in ZooKeeper, under its term. A stale
// write that took effect is found by the newer leader's next write, which reads
// an older term than it has written before.
func (env *environment) writeToTree(ctx context.Context, conn *zklatch.Conn, client *zklatch.Client, term uint64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	path := "/" + env.Lab + "/effect"
	found, _, err := conn.Get(ctx, path)
	if err != nil && !errors.Is(err, zklatch.ErrNoNode) {
		return false, err
	}
	stored, _ := strconv.ParseUint(string(found), 10, 64) // 0 if there is no node yet
	if stored < env.lastWritten {
		env.stale.Add(1)
		env.lastWritten = 0 // so that each stale write is counted once
	}
	done, err := client.Fenced(ctx, "/"+env.Lab, env.ID(), term, path, strconv.AppendUint(nil, term, 10))
	if err == nil && done {
		env.landed.Add(1)
		env.lastWritten = term
	}
	return done, err
}

func noMigration(context.Context, *conclavesql.DB, string) error { return nil }

// tree connects to ZooKeeper through the lab's proxy.
func (env *environment) tree() (*zklatch.Conn, error) {
	return zklatch.Dial(zklatch.ConnConfig{
		Servers: []string{env.Tree}, Timeout: env.Times.Lease,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return env.dial(ctx, "tcp", env.ThroughTree) },
	})
}

// closingTree is a strategy that also closes its connection, and that of the
// leader's writes.
type closingTree struct {
	*zklatch.Strategy
	conn, writes *zklatch.Conn
	client       *zklatch.Client
}

func (c closingTree) Close() error {
	err := c.Strategy.Close()
	c.client.Close()
	var group sync.WaitGroup // each may take a second
	group.Go(func() { c.conn.Close() })
	group.Go(func() { c.writes.Close() })
	group.Wait()
	return err
}
