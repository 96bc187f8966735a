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
// to a second longer, and the member stays counted until its session ends.
func (b *DoubleBarrier) Enter(ctx context.Context) error {
	b.mu.Lock()
	if b.inside {
		b.mu.Unlock()
		return fmt.Errorf("enter %s: %w", b.path, ErrEntered)
	}
	b.inside = true
	b.mu.Unlock()
	for {
		p, round, err := b.enter(ctx)
		if errors.Is(err, errPlaceLost) && ctx.Err() == nil {
			continue
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

// TryEnter is Enter with a time limit. It returns false if too few members came in time.
func (b *DoubleBarrier) TryEnter(ctx context.Context, limit time.Duration) (bool, error) {
	return within(ctx, limit, b.Enter)
}

// enter tries to enter by one session.
func (b *DoubleBarrier) enter(ctx context.Context) (place, int, error) {
	p, err := b.stand(ctx)
	if err != nil {
		return place{}, 0, err
	}
	joined, err := b.change(ctx, func(r *rounds) {
		if !slices.Contains(r.Members, p.name) {
			r.Members = append(r.Members, p.name)
		}
		r.Open = r.Open || len(r.Members) >= b.n
	})
	if err == nil {
		err = b.c.follow(ctx, b.path, func(n node) (bool, error) {
			r, err := b.read(n)
			switch {
			case err != nil:
				return false, err
			case r.Round != joined.Round || !slices.Contains(r.Members, p.name) || !b.c.alive(p):
				return false, errPlaceLost // another member has removed this one
			}
			return r.Open, nil
		})
	}
	if err == nil {
		return p, joined.Round, nil
	}
	// Give up, unless the round has opened with this member.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	entered := false
	now, failed := b.change(last, func(r *rounds) {
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
	return place{}, 0, err
}

// stand creates this member's node. Its name is drawn before, so that a lost answer
// does no harm.
func (b *DoubleBarrier) stand(ctx context.Context) (place, error) {
	p := place{dir: b.path, name: b.c.id()}
	for {
		_, err := b.c.tree.Create(ctx, p.path(), nil, Ephemeral)
		switch {
		case errors.Is(err, ErrNoNode):
			if err := b.c.persist(ctx, b.path, nil); err != nil {
				return place{}, err
			}
			continue
		case err != nil && !errors.Is(err, ErrNodeExists):
			if unanswered(err) {
				continue
			}
			b.c.discard(p.path())
			return place{}, err
		}
		_, stat, err := b.c.get(ctx, p.path())
		if errors.Is(err, ErrNoNode) {
			continue // the session has ended
		}
		if err != nil {
			b.c.discard(p.path())
			return place{}, err
		}
		p.session = stat.Owner
		return p, nil
	}
}

// Leave waits until all members of the round have left it (leave of Curator). If ctx
// ends first, this member has left nevertheless.
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
	r, err := b.change(ctx, func(r *rounds) {
		member = member || slices.Contains(r.Members, p.name)
		r.Members = slices.DeleteFunc(r.Members, func(name string) bool { return name == p.name })
	})
	if err == nil && !member {
		err = errPlaceLost // its session has ended: others have left without it
	}
	if err := b.c.tree.Delete(ctx, p.path(), AnyVersion); err != nil {
		b.c.discard(p.path()) // without its node it is not a member for long
	}
	for err == nil && r.Round == round && r.Open {
		// A member that leaves, or whose session ends, has no node any more.
		err = b.c.follow(ctx, b.path+"/"+r.Members[0], func(n node) (bool, error) { return !n.exists, nil })
		if err == nil {
			r, err = b.change(ctx, func(*rounds) {})
		}
	}
	return err
}

// change edits the barrier's node, until no other change has come between, and returns
// what it contains then. edit may be called several times. Members without a node are
// removed before, and after it an open round without members is ended.
func (b *DoubleBarrier) change(ctx context.Context, edit func(*rounds)) (rounds, error) {
	for {
		data, stat, err := b.c.get(ctx, b.path)
		if errors.Is(err, ErrNoNode) {
			if err := b.c.persist(ctx, b.path, nil); err != nil {
				return rounds{}, err
			}
			continue
		}
		if err != nil {
			return rounds{}, err
		}
		r, err := b.read(node{data: data})
		if err != nil {
			return rounds{}, err
		}
		names, err := b.c.tree.Children(ctx, b.path) // after the read: a member creates its node before it joins
		if unanswered(err) || errors.Is(err, ErrNoNode) {
			continue
		}
		if err != nil {
			return rounds{}, err
		}
		r.Members = slices.DeleteFunc(r.Members, func(name string) bool { return !slices.Contains(names, name) })
		r.close()
		edit(&r)
		r.close()
		after, err := json.Marshal(r)
		if err != nil || string(after) == string(data) {
			return r, err
		}
		_, err = b.c.tree.Set(ctx, b.path, after, stat.Version)
		if err == nil {
			return r, nil
		}
		if !unanswered(err) && !errors.Is(err, ErrBadVersion) && !errors.Is(err, ErrNoNode) {
			return rounds{}, err
		}
		// Another change came between, or the answer was lost: look again.
	}
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
