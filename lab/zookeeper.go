package lab

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"conclave/elector/zklatch"
	conclavesql "conclave/sql"
)

var zookeeperRule = Rule{
	Name: "zookeeper", From: "article 004 with numbered terms; elector/zklatch",
	About: "A latch in a line of ephemeral nodes, and the term in a record beside it; each waiter watches the one before it.",
	Own:   own, Fences: true, Tree: true,
	Weakness: "A killed leader's session lasts its timeout: nobody is told that the connection broke.",
	migrate:  nothing,
	start: func(_ context.Context, s *stand) (candidate, error) {
		tree, conn, err := s.tree()
		if err != nil {
			return nil, err
		}
		strategy, err := zklatch.NewStrategy(zklatch.StrategyConfig{Tree: tree, Path: "/" + s.Lab})
		if err != nil {
			return nil, err
		}
		client := zklatch.NewClient(conn, zklatch.ClientConfig{}) // for the writes, which are not counted
		return s.elector(closingTree{strategy, conn, client}, tree.asked.Load, func(ctx context.Context, _ *conclavesql.DB, term uint64) (bool, error) {
			return s.effect(ctx, conn, client, term)
		})
	},
}

var curatorRule = Rule{
	Name: "curator", From: "article 004: Curator's LeaderLatch (40 s is ZooKeeper's cap); elector/zklatch, Latch",
	About:    "The first of a line of ephemeral nodes leads; a broken connection is no leadership.",
	Weakness: "No number: a write that is under way when the session ends is not refused by anything.",
	Own:      Times{Lease: 40 * time.Second, Beat: 40 * time.Second / 3, Check: 40 * time.Second / 3}, Tree: true,
	migrate: nothing,
	start: func(_ context.Context, s *stand) (candidate, error) {
		tree, conn, err := s.tree()
		if err != nil {
			return nil, err
		}
		client := zklatch.NewClient(tree, zklatch.ClientConfig{})
		c := &latched{s: s, tree: tree, conn: conn, client: client, latch: client.Latch("/"+s.Lab, s.ID().String()), left: make(chan struct{})}
		c.latch.Listen(zklatch.Listener{
			IsLeader:  func() { s.turns.Add(1); s.belief.lead(0, time.Time{}) },
			NotLeader: func() { s.turns.Add(1); s.belief.leave("the latch says so") },
		})
		return c, nil
	},
}

// effect is a leader's write in the tree, under its place in the line. What lands after
// a newer term's is found by the newer leader's next write: it reads an older term than
// it has written itself.
func (s *stand) effect(ctx context.Context, conn *zklatch.Conn, client *zklatch.Client, term uint64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	path := "/" + s.Lab + "/effect"
	found, _, err := conn.Get(ctx, path)
	if err != nil && !errors.Is(err, zklatch.ErrNoNode) {
		return false, err
	}
	there, _ := strconv.ParseUint(string(found), 10, 64) // nothing is there: 0
	if there < s.effected {
		s.stale.Add(1)
		s.effected = 0 // each is counted once: what follows is written anew
	}
	done, err := client.Fenced(ctx, "/"+s.Lab, s.ID(), term, path, strconv.AppendUint(nil, term, 10))
	if err == nil && done {
		s.landed.Add(1)
		s.effected = term
	}
	return done, err
}

func nothing(context.Context, *conclavesql.DB, string) error { return nil }

// tree connects to ZooKeeper, through the network with faults.
func (s *stand) tree() (*countedTree, *zklatch.Conn, error) {
	conn, err := zklatch.Dial(zklatch.ConnConfig{
		Servers: []string{s.Tree}, Timeout: s.Times.Lease,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx, "tcp", s.ThroughTree) },
	})
	if err != nil {
		return nil, nil, err
	}
	return &countedTree{Tree: conn}, conn, nil
}

// countedTree counts requests. The client's pings are not among them.
type countedTree struct {
	zklatch.Tree
	asked atomic.Uint64
}

func (t *countedTree) Create(ctx context.Context, path string, data []byte, kind zklatch.Kind) (string, error) {
	t.asked.Add(1)
	return t.Tree.Create(ctx, path, data, kind)
}

func (t *countedTree) Delete(ctx context.Context, path string, version int32) error {
	t.asked.Add(1)
	return t.Tree.Delete(ctx, path, version)
}

func (t *countedTree) Get(ctx context.Context, path string) ([]byte, zklatch.Stat, error) {
	t.asked.Add(1)
	return t.Tree.Get(ctx, path)
}

func (t *countedTree) GetW(ctx context.Context, path string) ([]byte, zklatch.Stat, <-chan zklatch.Event, error) {
	t.asked.Add(1)
	return t.Tree.GetW(ctx, path)
}

func (t *countedTree) Set(ctx context.Context, path string, data []byte, version int32) (zklatch.Stat, error) {
	t.asked.Add(1)
	return t.Tree.Set(ctx, path, data, version)
}

func (t *countedTree) SetIf(ctx context.Context, path string, data []byte, version int32, fence string, fenceVersion int32) (zklatch.Stat, error) {
	t.asked.Add(1)
	return t.Tree.SetIf(ctx, path, data, version, fence, fenceVersion)
}

func (t *countedTree) Children(ctx context.Context, path string) ([]string, error) {
	t.asked.Add(1)
	return t.Tree.Children(ctx, path)
}

// closingTree closes the strategy's connection with it.
type closingTree struct {
	*zklatch.Strategy
	conn   *zklatch.Conn
	client *zklatch.Client
}

func (c closingTree) Close() error {
	err := c.Strategy.Close()
	c.client.Close()
	c.conn.Close()
	return err
}

// latched is a candidate that is a latch and nothing else.
type latched struct {
	s      *stand
	tree   *countedTree
	conn   *zklatch.Conn
	client *zklatch.Client
	latch  *zklatch.Latch
	once   sync.Once
	left   chan struct{} // closed by Stop
}

func (c *latched) Run(ctx context.Context) error {
	if err := c.latch.Start(); err != nil {
		return err
	}
	defer c.conn.Close()
	defer c.client.Close()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.left:
		return nil
	}
}

// Stop leaves the line; the node's end wakes the next one.
func (c *latched) Stop(ctx context.Context) error {
	c.s.belief.leave("closed")
	err := c.latch.Close(ctx, zklatch.Silent)
	c.once.Do(func() { close(c.left) })
	return err
}

// Leading is Curator's hasLeadership: a flag, and that the session lives as far as is
// known.
func (c *latched) Leading() (uint64, bool) { return 0, c.latch.HasLeadership() }
func (c *latched) Wake()                   {}

// Cost counts a change of the latch as a turn: it sleeps until a watch fires.
func (c *latched) Cost() (statements, turns uint64) { return c.tree.asked.Load(), c.s.turns.Load() }
