package oversell

import (
	"context"
	"errors"
	"fmt"
	"time"

	"conclave/lab/article004/zklatch"
	"conclave/lab/article004/zklatch/memtree"
)

// session is a worker's ZooKeeper session.
type session struct {
	zklatch.Tree
	client *zklatch.Client
	close  func()
}

// treeLocks are the locks of article 004.
type treeLocks struct {
	sessions []session
	server   *memtree.Server // nil on a real ZooKeeper
	path     string          // of the node above all nodes of this run
	make     func(c *zklatch.Client, path string) treeLock
}

// treeLock is the interface of the three locks.
type treeLock interface {
	Acquire(ctx context.Context) error
	Release(ctx context.Context) error
}

func single(c *zklatch.Client, path string) treeLock    { return c.SingleNode(path) }
func mutex(c *zklatch.Client, path string) treeLock     { return c.Mutex(path, nil) }
func semaphore(c *zklatch.Client, path string) treeLock { return c.SemaphoreMutex(path) }

// sessionTimeout is longer than any stall of a busy machine, so that no session
// expires.
const sessionTimeout = 30 * time.Second

func openTree(lock func(c *zklatch.Client, path string) treeLock) func(context.Context, *sale) (queue, error) {
	return func(ctx context.Context, sale *sale) (queue, error) {
		c := &treeLocks{path: "/" + sale.workers[0].shop.goods, make: lock}
		if sale.cfg.ZooKeeper == "" {
			c.server = memtree.New()
			if sale.cfg.onTree != nil {
				sale.cfg.onTree(c.server)
			}
		}
		for range sale.workers {
			s := session{close: func() {}}
			if c.server != nil {
				local := c.server.Connect(sessionTimeout)
				s.Tree, s.close = local, local.Close
			} else {
				conn, err := zklatch.Dial(zklatch.ConnConfig{Servers: []string{sale.cfg.ZooKeeper}, Timeout: sessionTimeout})
				if err != nil {
					return nil, errors.Join(err, c.close(ctx))
				}
				s.Tree, s.close = conn, func() { conn.Close() }
			}
			s.client = zklatch.NewClient(s.Tree, zklatch.ClientConfig{})
			c.sessions = append(c.sessions, s)
		}
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if _, err := c.sessions[0].Create(limited, c.path, nil, zklatch.Persistent); err != nil {
			return nil, errors.Join(fmt.Errorf("create %s: %w", c.path, err), c.close(ctx))
		}
		return c, nil
	}
}

// serve uses a new lock object for each buyer, because a mutex is reentrant for
// its object.
func (c *treeLocks) serve(ctx context.Context, w *worker, work func(context.Context, hold) error) error {
	l := c.make(c.sessions[w.n].client, c.path+"/goods")
	if err := l.Acquire(ctx); err != nil {
		return err
	}
	h := plain(w)
	if m, ok := l.(*zklatch.Mutex); ok {
		h.good = m.Held
	}
	return errors.Join(work(ctx, h), l.Release(ctx))
}

func (c *treeLocks) close(ctx context.Context) error {
	for i := len(c.sessions) - 1; i >= 0; i-- { // the first, which deletes the nodes, is the last to be closed
		s := c.sessions[i]
		s.client.Close()
		if i == 0 && c.server == nil {
			limited, cancel := context.WithTimeout(ctx, 5*time.Second)
			for _, path := range []string{c.path + "/goods", c.path} {
				_ = s.Delete(limited, path, zklatch.AnyVersion) // if it fails, two empty nodes stay
			}
			cancel()
		}
		s.close()
	}
	return nil
}

// cost counts the waiters that were woken and, for a tree in memory, the
// requests.
func (c *treeLocks) cost() (wakeUps, requests *uint64) {
	var woken uint64
	for _, s := range c.sessions {
		woken += s.client.Woken()
	}
	if c.server == nil {
		return &woken, nil
	}
	n := c.server.Counts()
	asked := n.Reads + n.Writes
	return &woken, &asked
}
