package zklatch

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
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
	kind   string // the part of the own node's name between id and number
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

// oneAtATime is the rule of a mutex: the first may proceed, each other one watches the
// one before it.
func oneAtATime(names []string, at int) (watch string, mayGo bool) {
	if at == 0 {
		return "", true
	}
	return names[at-1], false
}

// protected is the prefix of a name with an id.
const protected = "_c_"

// byNumber compares two names by their numbers, the last ten digits. (They overflow after
// 2^31 nodes under one parent, as in ZooKeeper.)
func byNumber(a, b string) int {
	return cmp.Compare(a[max(0, len(a)-10):], b[max(0, len(b)-10):])
}

// stand takes a place and waits until it may proceed. If the place is lost with its
// session, or the queue was deleted while the place was taken, it starts again, as long
// as the policy allows it. If ctx ends, the place is deleted. (attemptLock in article
// 004.)
func (q queue) stand(ctx context.Context) (place, error) {
	for retries, began := 0, time.Now(); ; retries++ {
		p, err := q.enter(ctx)
		if err == nil {
			if err = q.wait(ctx, p); err == nil {
				return p, nil
			}
			q.c.discard(p.dir, p.id)
		}
		if !errors.Is(err, ErrPlaceLost) {
			return place{}, err
		}
		if err := q.c.cfg.Retry.allow(ctx, retries, began, err); err != nil {
			return place{}, err
		}
	}
}

// enter creates the own node (createsTheLock in article 004). It returns ErrPlaceLost if
// the queue was deleted after it was created.
func (q queue) enter(ctx context.Context) (place, error) {
	for created := false; ; {
		p := place{dir: q.dir, id: rand.Text()}
		path, err := q.c.Create(ctx, q.dir+"/"+protected+p.id+q.kind, q.data, zk.FlagEphemeralSequential)
		switch {
		case errors.Is(err, ErrNoNode) && created:
			return place{}, ErrPlaceLost
		case errors.Is(err, ErrNoNode):
			created = true
			if err := q.c.makePath(ctx, q.dir, zk.FlagContainer); err != nil && !errors.Is(err, ErrNoNode) {
				return place{}, err
			}
			continue
		case errors.Is(err, ErrSessionExpired): // nothing was created
			continue
		case errors.Is(err, ErrConnectionLost): // a node with this id is ours
			path, err = q.c.find(ctx, q.dir, p.id)
		}
		if err == nil && path != "" {
			// Read its owner: the node may have been created by the session before this one.
			var stat *zk.Stat
			if _, stat, err = q.c.Get(ctx, path); err == nil {
				p.name, p.session = path[strings.LastIndexByte(path, '/')+1:], stat.EphemeralOwner
				return p, nil
			}
		}
		q.c.discard(q.dir, p.id) // it may appear later, at a server that lags behind
		if err != nil && !errors.Is(err, ErrNoNode) && !lost(err) {
			return place{}, err
		}
	}
}

// find looks for a node of a queue by its id. It returns an empty path if there is none.
func (c *Client) find(ctx context.Context, dir, id string) (path string, err error) {
	err = untilAnswered(func() error {
		names, err := c.Children(ctx, dir)
		for _, name := range names {
			if strings.Contains(name, id) {
				path = dir + "/" + name
			}
		}
		return err
	})
	return path, err
}

// look returns the names of the recipes' nodes in dir in order; other nodes are ignored
// (getSortedChildren in article 004).
func (c *Client) look(ctx context.Context, dir string) ([]string, error) {
	names, err := c.Children(ctx, dir)
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, protected) })
	slices.SortFunc(names, byNumber)
	return names, err
}

// step reads the queue once, and reports whether p may proceed. If not, it returns the
// watch on the node before it; without a watch, read again.
// (validateOurIndex in article 004 is its check that p is still there.)
func (q queue) step(ctx context.Context, p place) (mayGo bool, events <-chan zk.Event, err error) {
	names, err := q.c.look(ctx, q.dir)
	if err != nil && !errors.Is(err, ErrNoNode) {
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
	_, _, events, err = q.c.GetW(ctx, q.dir+"/"+previous)
	if errors.Is(err, ErrNoNode) {
		return false, nil, nil // deleted between the two reads: there would be no event
	}
	return false, events, err
}

// wait returns when p may proceed (internalLockLoop in article 004). After each
// event, and after each loss of the connection, it reads the queue again: a watch
// reports that something has changed, not what.
func (q queue) wait(ctx context.Context, p place) error {
	for {
		s, changed := q.c.Session()
		if s.ID != 0 && s.ID != p.session {
			return ErrPlaceLost
		}
		mayGo, events, err := q.step(ctx, p)
		switch {
		case errors.Is(err, ErrConnectionLost):
			continue
		case errors.Is(err, ErrSessionExpired):
			return ErrPlaceLost
		case err != nil:
			return err
		case mayGo:
			if now, _ := q.c.Session(); now.ID == p.session {
				return nil
			}
			continue // it was the queue of a session that has ended
		case events == nil:
			continue
		}
		select {
		case <-events:
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
	err := q.c.Delete(ctx, p.path(), AnyVersion)
	if err != nil && !errors.Is(err, ErrNoNode) {
		q.c.discard(p.dir, p.id)
	}
}

// Participant is a node in a queue.
type Participant struct {
	Path string // of its node
	Data []byte // of its client
}

// Participants returns the holder of a lock or the leader at a path, then the waiters in
// order (getParticipantNodes in article 004).
func (c *Client) Participants(ctx context.Context, path string) (list []Participant, err error) {
	err = untilAnswered(func() error {
		list = nil
		names, err := c.look(ctx, path)
		for _, name := range names {
			node := path + "/" + name
			data, _, err := c.Get(ctx, node)
			if errors.Is(err, ErrNoNode) {
				continue // deleted meanwhile
			}
			if err != nil {
				return err
			}
			list = append(list, Participant{Path: node, Data: data})
		}
		return err
	})
	if err != nil && !errors.Is(err, ErrNoNode) { // the queue was never used
		return nil, fmt.Errorf("list %s: %w", path, err)
	}
	return list, nil
}
