package oversell

import (
	"context"
	"time"

	"conclave/lab/article004/zklatch"
	"conclave/lab/article004/zklatch/memtree"
)

// treeLock is the interface of the locks of article 004.
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

// openTree gives each worker a session with ZooKeeper. A buyer has a lock object of its
// own, because a mutex is reentrant for its object. The servers delete the path of the
// run when it is empty.
func openTree(lock func(c *zklatch.Client, path string) treeLock) func(context.Context, *sale) error {
	return func(_ context.Context, s *sale) error {
		address := s.cfg.ZooKeeper
		if address == "" {
			_, inMemory, stop, err := memtree.Start()
			if err != nil {
				return err
			}
			address = inMemory
			s.stops = append(s.stops, stop)
		}
		var clients []*zklatch.Client
		for _, w := range s.workers {
			client, err := zklatch.Dial(zklatch.Config{Servers: []string{address}, Timeout: sessionTimeout})
			if err != nil {
				return err
			}
			s.stops = append(s.stops, client.Close)
			clients = append(clients, client)
			w.lock = func(ctx context.Context) (hold, error) {
				l := lock(client, "/"+w.shop.goods+"/goods")
				h := plain(w)
				h.release = l.Release
				if m, ok := l.(*zklatch.Mutex); ok {
					h.good = m.Held
				}
				return h, l.Acquire(ctx)
			}
		}
		s.cost = func() (wakeUps, requests *uint64) {
			wakeUps, requests = new(uint64), new(uint64)
			for _, client := range clients {
				*wakeUps += client.Woken()
				*requests += client.Requests()
			}
			return wakeUps, requests
		}
		return nil
	}
}
