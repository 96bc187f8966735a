package oversell

import (
	"context"
	"errors"
	"fmt"
	"time"

	"conclave/lab/article004/zklatch"
	"conclave/lab/article004/zklatch/memtree"
)

// treeLocks are the locks of article 004.
type treeLocks struct {
	conns   []*zklatch.Conn
	clients []*zklatch.Client
	path    string // of the node above all nodes of this run
	lock    func(c *zklatch.Client, path string) treeLock
	stop    func() // stops the tree in memory; nil on a real ZooKeeper
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
		c := &treeLocks{path: "/" + sale.workers[0].shop.goods, lock: lock}
		address := sale.cfg.ZooKeeper
		if address == "" {
			var server *memtree.Server
			var err error
			if server, address, c.stop, err = memtree.Start(); err != nil {
				return nil, err
			}
			if sale.cfg.onTree != nil {
				sale.cfg.onTree(server)
			}
		}
		for range sale.workers {
			conn, err := zklatch.Dial(zklatch.ConnConfig{Servers: []string{address}, Timeout: sessionTimeout})
			if err != nil {
				return nil, errors.Join(err, c.close(ctx))
			}
			c.conns = append(c.conns, conn)
			c.clients = append(c.clients, zklatch.NewClient(conn, zklatch.ClientConfig{}))
		}
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if _, err := c.conns[0].Create(limited, c.path, nil, zklatch.Persistent); err != nil {
			return nil, errors.Join(fmt.Errorf("create %s: %w", c.path, err), c.close(ctx))
		}
		return c, nil
	}
}

// serve uses a new lock object for each buyer, because a mutex is reentrant for
// its object.
func (c *treeLocks) serve(ctx context.Context, w *worker, work func(context.Context, hold) error) error {
	l := c.lock(c.clients[w.n], c.path+"/goods")
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
	for _, client := range c.clients {
		client.Close()
	}
	for i := len(c.conns) - 1; i >= 0; i-- { // the first, which deletes the nodes, is the last to be closed
		if i == 0 {
			limited, cancel := context.WithTimeout(ctx, 5*time.Second)
			for _, path := range []string{c.path + "/goods", c.path} {
				_ = c.conns[0].Delete(limited, path, zklatch.AnyVersion) // if it fails, two empty nodes stay
			}
			cancel()
		}
		c.conns[i].Close()
	}
	if c.stop != nil {
		c.stop()
	}
	return nil
}

// cost counts the waiters that were woken, and the requests.
func (c *treeLocks) cost() (wakeUps, requests *uint64) {
	var woken, sent uint64
	for i := range c.conns {
		woken += c.clients[i].Woken()
		sent += c.conns[i].Requests()
	}
	return &woken, &sent
}
