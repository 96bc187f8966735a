package oversell

import (
	"context"
	"errors"
	"time"

	"conclave/lab/article004/zklatch"
	"conclave/lab/article004/zklatch/memtree"
)

// treeLocks are the locks of article 004.
type treeLocks struct {
	clients []*zklatch.Client
	path    string // above the lock; the servers delete it when it is empty
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
	return func(_ context.Context, sale *sale) (queue, error) {
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
			client, err := zklatch.Dial(zklatch.Config{Servers: []string{address}, Timeout: sessionTimeout})
			if err != nil {
				c.close()
				return nil, err
			}
			c.clients = append(c.clients, client)
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

func (c *treeLocks) close() {
	for _, client := range c.clients {
		client.Close()
	}
	if c.stop != nil {
		c.stop()
	}
}

// cost counts the waiters that were woken, and the requests.
func (c *treeLocks) cost() (wakeUps, requests *uint64) {
	var woken, sent uint64
	for _, client := range c.clients {
		woken += client.Woken()
		sent += client.Requests()
	}
	return &woken, &sent
}
