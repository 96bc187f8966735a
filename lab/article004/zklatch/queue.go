package zklatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrPlaceLost is returned if the own node does not exist any more, mostly because its
// session has ended, or cannot be created because the queue itself was deleted
// (NoNodeException in article 004): by calls that wait, together with ErrRetryRefused.
// It is an ErrNoNode.
var ErrPlaceLost = fmt.Errorf("the place is lost: %w", ErrNoNode)

// A queue is a node with numbered, ephemeral children, of which each watches only the
// one before it. The names are protected: they contain an id that was drawn before
// the request was sent, so that the node can be found if the answer is lost.
type queue struct {
	c      *Client
	dir    string
	kind   string   // of the own node: the part of its name between id and number
	kinds  []string // of the nodes in this queue; other nodes are ignored
	data   []byte
	before rule
}

// rule reports whether the node at index at may proceed, and otherwise which node it
// must watch (getsTheLock in article 004). names is sorted by number.
type rule func(names []string, at int) (watch string, mayGo bool)

// place is a node of this client in a queue.
type place struct {
	dir, name string
	id        string
	session   int64 // the node ends with it
}

func (p place) path() string { return p.dir + "/" + p.name }

// oneAtATime is the rule of a mutex.
func oneAtATime(names []string, at int) (watch string, mayGo bool) { return upTo(1)(names, at) }

// upTo is the rule of a semaphore: n may proceed, each other watches the one n places
// before it.
func upTo(n int) rule {
	return func(names []string, at int) (string, bool) {
		if at < n {
			return "", true
		}
		return names[at-n], false
	}
}

// protected is the prefix of a name with an id.
const protected = "_c_"

// numberOf returns a name's last ten digits. (They overflow after 2^31 nodes under one
// parent, as in ZooKeeper.)
func numberOf(name string) string { return name[max(0, len(name)-10):] }

// stand takes a place and waits until it may proceed. If the place is lost with its
// session, or the queue was deleted while the place was taken, it starts again, as long
// as the policy allows it. If ctx ends, the place is deleted. (attemptLock in article
// 004.)
func (q queue) stand(ctx context.Context) (place, error) {
	for starts := q.c.retries(); ; {
		p, err := q.enter(ctx, starts)
		if err != nil {
			return place{}, err
		}
		err = q.wait(ctx, p)
		if err == nil {
			return p, nil
		}
		q.c.discardByID(p.dir, p.id)
		if !errors.Is(err, ErrPlaceLost) {
			return place{}, err
		}
		if err := starts.next(ctx, err); err != nil {
			return place{}, err
		}
	}
}

// enter creates the own node (createsTheLock in article 004). It counts in starts how
// often it had to start again because the queue was deleted after it was created.
func (q queue) enter(ctx context.Context, starts *retries) (place, error) {
	created := false // the queue, by this call
	for requests := q.c.retries(); ; {
		p := place{dir: q.dir, id: q.c.id()}
		path, err := q.c.tree.Create(ctx, q.dir+"/"+protected+p.id+q.kind, q.data, EphemeralNumbered)
		switch {
		case errors.Is(err, ErrNoNode):
			if created {
				if err := starts.next(ctx, ErrPlaceLost); err != nil {
					return place{}, err
				}
			}
			created = true
			err := q.c.callWithRetry(ctx, func() error { return q.c.makeContainers(ctx, q.dir) })
			if err != nil && !errors.Is(err, ErrNoNode) {
				return place{}, err
			}
			continue
		case errors.Is(err, ErrSessionExpired): // nothing was created
			if err := requests.next(ctx, err); err != nil {
				return place{}, err
			}
			continue
		case errors.Is(err, ErrConnectionLost):
			// The node may have been created: a node with this id is ours.
			lost := err
			if path, err = q.find(ctx, p.id); err != nil {
				q.c.discardByID(q.dir, p.id)
				return place{}, err
			}
			if path == "" {
				q.c.discardByID(q.dir, p.id) // it may appear later, at a server that lags behind
				if err := requests.next(ctx, lost); err != nil {
					return place{}, err
				}
				continue
			}
		case err != nil:
			q.c.discardByID(q.dir, p.id)
			return place{}, err
		}
		p.name = path[strings.LastIndexByte(path, '/')+1:]

		// Read its owner: the node may have been created by the session before this
		// one.
		switch _, s, err := q.c.tree.Get(ctx, path); {
		case err == nil:
			p.session = s.Owner
			return p, nil
		case errors.Is(err, ErrNoNode), retryable(err):
			q.c.discardByID(q.dir, p.id)
			if err := requests.next(ctx, err); err != nil {
				return place{}, err
			}
		default:
			q.c.discardByID(q.dir, p.id)
			return place{}, err
		}
	}
}

// find looks for a node by its id. It returns an empty path if there is none.
func (q queue) find(ctx context.Context, id string) (path string, err error) {
	err = q.c.callWithRetry(ctx, func() error {
		names, err := q.c.tree.Children(ctx, q.dir)
		for _, name := range names {
			if strings.Contains(name, id) {
				path = q.dir + "/" + name
			}
		}
		return err
	})
	if errors.Is(err, ErrNoNode) {
		return "", nil
	}
	return path, err
}

// look returns the names of the queue's nodes in order (getSortedChildren in article
// 004).
func (q queue) look(ctx context.Context) ([]string, error) {
	names, err := q.c.tree.Children(ctx, q.dir)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return !slices.ContainsFunc(q.kinds, func(kind string) bool { return strings.Contains(name, kind) })
	})
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(numberOf(a), numberOf(b)) })
	return names, nil
}

// step reads the queue once, and reports whether p may proceed. If not, it returns the
// watch on the node before it, which it keeps in w; without a watch, read again. (validateOurIndex in
// article 004 is its check that p is still there.)
func (q queue) step(ctx context.Context, p place, w *watched) (mayGo bool, watch <-chan Event, err error) {
	names, err := q.look(ctx)
	if errors.Is(err, ErrNoNode) {
		return false, nil, ErrPlaceLost
	}
	if err != nil {
		return false, nil, err
	}
	at := slices.Index(names, p.name)
	if at < 0 {
		return false, nil, ErrPlaceLost
	}
	previous, mayGo := q.before(names, at)
	if mayGo {
		return true, nil, nil
	}
	path := q.dir + "/" + previous
	_, watch, err = q.c.read(ctx, path, w.on(path))
	if errors.Is(err, ErrNoNode) {
		return false, nil, nil // deleted between the two reads: there would be no event
	}
	return false, watch, err
}

// wait returns when p may proceed (internalLockLoop in article 004). After each
// event, and after each loss of the connection, it reads the queue again: a watch
// reports that something has changed, not what. The policy limits how often it fails to
// read in a row.
func (q queue) wait(ctx context.Context, p place) error {
	var w watched
	for {
		s, changed := q.c.tree.Session()
		if s.ID != 0 && s.ID != p.session {
			return ErrPlaceLost
		}
		var mayGo bool
		var watch <-chan Event
		err := q.c.callWithRetry(ctx, func() (err error) {
			mayGo, watch, err = q.step(ctx, p, &w)
			if errors.Is(err, ErrSessionExpired) {
				return ErrPlaceLost
			}
			return err
		})
		switch {
		case err != nil:
			return err
		case mayGo:
			if now, _ := q.c.tree.Session(); now.ID == p.session {
				return nil
			}
			continue // it was the queue of a session that has ended
		case watch == nil:
			continue
		}
		select {
		case <-watch:
			w.watch.fired(watch)
			q.c.woken.Add(1)
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// leave deletes a place. If that fails, it is repeated in the background until it
// succeeds (deleteOurPath in article 004).
func (q queue) leave(ctx context.Context, p place) {
	err := q.c.tree.Delete(ctx, p.path(), AnyVersion)
	if err != nil && !errors.Is(err, ErrNoNode) {
		q.c.discard(p.path())
	}
}
