package zklatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

var (
	// ErrEntered is returned by Enter if this handle has entered and not left.
	ErrEntered = errors.New("the barrier is entered already")
	// ErrNotEntered is returned by Leave if this handle has not entered.
	ErrNotEntered = errors.New("the barrier is not entered")
)

// DoubleBarrier lets members begin together and end together
// (DistributedDoubleBarrier of Curator). Enter waits until a number of members have
// called it; Leave waits until all that have entered have left, or their sessions have
// ended. Then the next round begins. The number is a threshold: a member that comes
// while a round is open joins it at once.
//
// The barrier's node has the round, whether it is open, and the members' names, and each
// change is a write at the version that was read. So the last member opens the round by
// the same write by which it joins, and a member that gives up cannot be counted. Each
// member also has an ephemeral node below; if that does not exist, the next change
// removes the member. (Curator counts the members' nodes instead.) Each change wakes all
// members that wait to enter.
type DoubleBarrier struct {
	c    *Client
	path string
	n    int

	watch watch // on the barrier's node

	mu     sync.Mutex // guards the fields below
	place  place      // of this member; without a name if it has not entered
	round  int        // that it has entered
	inside bool       // a call is in progress, or it has entered
}

// DoubleBarrier returns a handle of the barrier at a path, for one member of n (at least
// one). All handles must use the same n.
func (c *Client) DoubleBarrier(path string, n int) *DoubleBarrier {
	return &DoubleBarrier{c: c, path: path, n: max(n, 1)}
}

// rounds is what the barrier's node contains.
type rounds struct {
	Round   int      `json:"round"`
	Open    bool     `json:"open"`
	Members []string `json:"members"` // the names of their nodes
}

// Enter waits until n members have called it (enter of Curator). If ctx ends first, this
// member is not counted any more. If the servers cannot be reached then, Enter takes up
// to a second longer, and also returns that error: the member stays counted until its
// node is deleted in the background, or its session ends. If the session ends while it
// waits, it starts again, as long as the Client's policy allows it.
func (b *DoubleBarrier) Enter(ctx context.Context) error {
	b.mu.Lock()
	if b.inside {
		b.mu.Unlock()
		return fmt.Errorf("enter %s: %w", b.path, ErrEntered)
	}
	b.inside = true
	b.mu.Unlock()
	for starts := b.c.retries(); ; {
		p, round, err := b.enter(ctx, starts)
		if errors.Is(err, ErrPlaceLost) && !errors.Is(err, ErrRetryRefused) {
			if err = starts.next(ctx, err); err == nil {
				continue
			}
		}
		b.mu.Lock()
		b.place, b.round, b.inside = p, round, err == nil
		b.mu.Unlock()
		if err != nil {
			return fmt.Errorf("enter %s: %w", b.path, err)
		}
		return nil
	}
}

// TryEnter is Enter with a time limit. It returns false if too few members came in time
// and this one is not counted any more.
func (b *DoubleBarrier) TryEnter(ctx context.Context, limit time.Duration) (bool, error) {
	return within(ctx, limit, b.Enter)
}

// enter tries to enter by one session.
func (b *DoubleBarrier) enter(ctx context.Context, starts *retries) (place, int, error) {
	p, err := b.stand(ctx, starts)
	if err != nil {
		return place{}, 0, err
	}
	joined, err := b.change(ctx, ifChanged, func(r *rounds) {
		if !slices.Contains(r.Members, p.name) {
			r.Members = append(r.Members, p.name)
		}
		r.Open = r.Open || len(r.Members) >= b.n
	})
	if err == nil {
		err = b.c.follow(ctx, b.path, &b.watch, func(n node) (bool, error) {
			r, err := b.read(n)
			switch {
			case err != nil:
				return false, err
			case r.Round != joined.Round || !slices.Contains(r.Members, p.name) || !b.c.alive(p):
				return false, ErrPlaceLost // another member has removed this one
			}
			return r.Open, nil
		})
	}
	if err == nil {
		return p, joined.Round, nil
	}
	// Give up, unless the round has opened with this member. This is written even if it
	// is not a member: a joining write that was not answered may be executed later, and
	// must find another version then.
	last, cancel := lastRequests(ctx)
	defer cancel()
	entered := false
	now, failed := b.change(last, always, func(r *rounds) {
		at := slices.Index(r.Members, p.name)
		entered = at >= 0 && r.Open && b.c.alive(p)
		if at >= 0 && !entered {
			r.Members = slices.Delete(r.Members, at, at+1)
		}
	})
	if failed == nil && entered {
		return p, now.Round, nil
	}
	b.c.discard(p.path())
	if failed != nil {
		err = errors.Join(err, fmt.Errorf("%s may still be counted: %w", p.name, failed))
	}
	return place{}, 0, err
}

// stand creates this member's node. Its name is drawn before, so that a lost answer
// does no harm.
func (b *DoubleBarrier) stand(ctx context.Context, starts *retries) (place, error) {
	p := place{dir: b.path, name: b.c.id()}
	for {
		err := b.c.createNode(ctx, p.path(), nil, Ephemeral, b.c.callWithRetry)
		if err == nil || errors.Is(err, ErrNodeExists) {
			var stat Stat
			if _, stat, err = b.c.get(ctx, p.path()); err == nil {
				p.session = stat.Owner
				return p, nil
			}
			if errors.Is(err, ErrNoNode) { // the session has ended
				err = starts.next(ctx, ErrPlaceLost)
			}
		}
		if err != nil {
			b.c.discard(p.path())
			return place{}, err
		}
	}
}

// Leave waits until all members of the round have left it (leave of Curator). If ctx
// ends first, this member has left nevertheless. Leave returns ErrPlaceLost if the
// member's session had ended: others may have left without it.
func (b *DoubleBarrier) Leave(ctx context.Context) error {
	b.mu.Lock()
	p, round := b.place, b.round
	b.place = place{}
	b.mu.Unlock()
	if p.name == "" {
		return fmt.Errorf("leave %s: %w", b.path, ErrNotEntered)
	}
	err := b.leave(ctx, p, round)
	b.mu.Lock()
	b.inside = false
	b.mu.Unlock()
	if err != nil {
		return fmt.Errorf("leave %s: %w", b.path, err)
	}
	return nil
}

// TryLeave is Leave with a time limit. It returns false if not all have left in time.
func (b *DoubleBarrier) TryLeave(ctx context.Context, limit time.Duration) (bool, error) {
	return within(ctx, limit, b.Leave)
}

func (b *DoubleBarrier) leave(ctx context.Context, p place, round int) error {
	member := false
	r, err := b.change(ctx, ifChanged, func(r *rounds) {
		member = member || slices.Contains(r.Members, p.name)
		r.Members = slices.DeleteFunc(r.Members, func(name string) bool { return name == p.name })
	})
	if err == nil && !member {
		err = ErrPlaceLost
	}
	if err := b.c.tree.Delete(ctx, p.path(), AnyVersion); err != nil {
		b.c.discard(p.path()) // without its node it is not a member for long
	}
	for err == nil && r.Round == round && r.Open {
		// A member that leaves, or whose session ends, has no node any more.
		err = b.c.follow(ctx, b.path+"/"+r.Members[0], new(watch), func(n node) (bool, error) { return !n.exists, nil })
		if err == nil {
			r, err = b.change(ctx, ifChanged, func(*rounds) {})
		}
	}
	return err
}

// writing is when a change is written.
type writing bool

const (
	ifChanged writing = false // if it changes what the barrier's node contains
	always    writing = true  // also if it does not
)

// change edits the barrier's node, until no other change has come between, and returns
// what it contains then. edit may be called several times. Members without a node are
// removed before, and after it an open round without members is ended.
func (b *DoubleBarrier) change(ctx context.Context, write writing, edit func(*rounds)) (r rounds, err error) {
	err = b.c.callWithRetry(ctx, func() (err error) {
		for {
			r, err = b.tryChange(ctx, write, edit)
			if !errors.Is(err, ErrBadVersion) && !errors.Is(err, ErrNoNode) {
				return err
			}
		}
	})
	return r, err
}

// tryChange is change, but for one version of the node. It returns ErrBadVersion or
// ErrNoNode if there was another change.
func (b *DoubleBarrier) tryChange(ctx context.Context, write writing, edit func(*rounds)) (rounds, error) {
	data, stat, err := b.c.tree.Get(ctx, b.path)
	if errors.Is(err, ErrNoNode) {
		if err := b.c.persist(ctx, b.path, nil); err != nil {
			return rounds{}, err
		}
	}
	if err != nil {
		return rounds{}, err
	}
	r, err := b.read(node{data: data})
	if err != nil {
		return rounds{}, err
	}
	names, err := b.c.tree.Children(ctx, b.path) // after the read: a member creates its node before it joins
	if err != nil {
		return rounds{}, err
	}
	r.Members = slices.DeleteFunc(r.Members, func(name string) bool { return !slices.Contains(names, name) })
	r.close()
	edit(&r)
	r.close()
	after, err := json.Marshal(r)
	if err == nil && (write == always || string(after) != string(data)) {
		_, err = b.c.tree.Set(ctx, b.path, after, stat.Version)
	}
	return r, err
}

// close ends an open round that has no members.
func (r *rounds) close() {
	if r.Open && len(r.Members) == 0 {
		r.Open = false
		r.Round++
	}
}

// read decodes what the barrier's node contains; an empty one is the first round.
func (b *DoubleBarrier) read(n node) (r rounds, err error) {
	if len(n.data) > 0 {
		err = json.Unmarshal(n.data, &r)
	}
	if err != nil {
		return rounds{}, fmt.Errorf("%s is no barrier: %w", b.path, err)
	}
	return r, nil
}
