package zklatch

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
)

// errPlaceLost: the own node is not in the line any more. Who stands in it begins anew.
var errPlaceLost = errors.New("the place in the line is lost")

// A line is a node under which numbered, ephemeral ones stand: each waiter watches
// only the one before it. The names are protected: they carry an id that was drawn
// before the request was sent, so that a lost answer can be made up for.
type line struct {
	c      *Client
	dir    string
	kind   string   // of the own place: the name between id and number
	kinds  []string // that stand in this line; others are no part of it
	data   []byte
	before rule
}

// rule says whether who stands at index at may go, and whom to watch if not. line is
// sorted by number.
type rule func(line []string, at int) (watch string, mayGo bool)

// place is a node of ours in a line.
type place struct {
	dir, name string
	id        string
	session   int64 // that it ends with
}

func (p place) path() string { return p.dir + "/" + p.name }

// oneAtATime is the rule of a mutex.
func oneAtATime(line []string, at int) (watch string, mayGo bool) { return upTo(1)(line, at) }

// upTo is the rule of a semaphore: n may go, the others watch who is n before them.
func upTo(n int) rule {
	return func(line []string, at int) (string, bool) {
		if at < n {
			return "", true
		}
		return line[at-n], false
	}
}

// protected is how a name with an id begins.
const protected = "_c_"

// numberOf are a name's last ten digits. (They start over after two thousand million
// places under one parent; ZooKeeper's do, too.)
func numberOf(name string) string { return name[max(0, len(name)-10):] }

// stand takes a place and waits until it may go. A place that is lost with its
// session is taken anew, from the start. When ctx ends, the place is given up.
func (l line) stand(ctx context.Context) (place, error) {
	for {
		p, err := l.enter(ctx)
		if err != nil {
			return place{}, err
		}
		err = l.wait(ctx, p)
		if err == nil {
			return p, nil
		}
		l.c.discardByID(p.dir, p.id)
		if !errors.Is(err, errPlaceLost) {
			return place{}, err
		}
	}
}

// enter makes the own node.
func (l line) enter(ctx context.Context) (place, error) {
	for {
		p := place{dir: l.dir, id: l.c.id()}
		path, err := l.c.tree.Create(ctx, l.dir+"/"+protected+p.id+l.kind, l.data, EphemeralNumbered)
		switch {
		case errors.Is(err, ErrNoNode):
			if err := l.c.makeParents(ctx, l.dir); err != nil && !errors.Is(err, ErrConnectionLost) && !errors.Is(err, ErrSessionExpired) {
				return place{}, err
			}
			continue
		case errors.Is(err, ErrSessionExpired):
			continue // nothing was made
		case errors.Is(err, ErrConnectionLost):
			// Made, or not: whoever carries the id is ours.
			if path, err = l.find(ctx, p.id); err != nil {
				l.c.discardByID(l.dir, p.id)
				return place{}, err
			}
			if path == "" {
				l.c.discardByID(l.dir, p.id) // it may show up yet, at a server that lags behind
				continue
			}
		case err != nil:
			l.c.discardByID(l.dir, p.id)
			return place{}, err
		}
		p.name = path[strings.LastIndexByte(path, '/')+1:]

		// Whose is it? It may have been made by the session before this one.
		switch _, s, err := l.c.tree.Get(ctx, path); {
		case err == nil:
			p.session = s.Owner
			return p, nil
		case errors.Is(err, ErrNoNode), errors.Is(err, ErrConnectionLost), errors.Is(err, ErrSessionExpired):
			l.c.discardByID(l.dir, p.id)
		default:
			l.c.discardByID(l.dir, p.id)
			return place{}, err
		}
	}
}

// find looks for a node by its id; the path is empty when there is none.
func (l line) find(ctx context.Context, id string) (string, error) {
	for {
		names, err := l.c.tree.Children(ctx, l.dir)
		switch {
		case errors.Is(err, ErrConnectionLost), errors.Is(err, ErrSessionExpired):
			continue // each try waits for a connection
		case errors.Is(err, ErrNoNode):
			return "", nil
		case err != nil:
			return "", err
		}
		for _, name := range names {
			if strings.Contains(name, id) {
				return l.dir + "/" + name, nil
			}
		}
		return "", nil
	}
}

// look is the line in its order.
func (l line) look(ctx context.Context) ([]string, error) {
	names, err := l.c.tree.Children(ctx, l.dir)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return !slices.ContainsFunc(l.kinds, func(kind string) bool { return strings.Contains(name, kind) })
	})
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(numberOf(a), numberOf(b)) })
	return names, nil
}

// step looks at the line once: may p go? If not, it returns the watch on who bars it;
// no watch means: look again.
func (l line) step(ctx context.Context, p place) (mayGo bool, watch <-chan Event, err error) {
	names, err := l.look(ctx)
	if errors.Is(err, ErrNoNode) {
		return false, nil, errPlaceLost
	}
	if err != nil {
		return false, nil, err
	}
	at := slices.Index(names, p.name)
	if at < 0 {
		return false, nil, errPlaceLost
	}
	whom, mayGo := l.before(names, at)
	if mayGo {
		return true, nil, nil
	}
	_, _, watch, err = l.c.tree.GetW(ctx, l.dir+"/"+whom)
	if errors.Is(err, ErrNoNode) {
		return false, nil, nil // gone between the two: no event would ever come
	}
	return false, watch, err
}

// wait returns when p may go. After each event, and after each time without a
// connection, it looks again: a watch says that something has changed, not what.
func (l line) wait(ctx context.Context, p place) error {
	for {
		s, changed := l.c.tree.Session()
		if s.ID != 0 && s.ID != p.session {
			return errPlaceLost
		}
		mayGo, watch, err := l.step(ctx, p)
		switch {
		case errors.Is(err, ErrConnectionLost):
			continue
		case errors.Is(err, ErrSessionExpired):
			return errPlaceLost
		case err != nil:
			return err
		case mayGo:
			if now, _ := l.c.tree.Session(); now.ID == p.session {
				return nil
			}
			continue // it was the line of a session that is over
		case watch == nil:
			continue
		}
		select {
		case <-watch:
			l.c.woken.Add(1)
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// leave gives a place up. It always comes about: what cannot be said now is said in
// the background.
func (l line) leave(ctx context.Context, p place) {
	err := l.c.tree.Delete(ctx, p.path(), AnyVersion)
	if err != nil && !errors.Is(err, ErrNoNode) {
		l.c.discard(p.path())
	}
}
