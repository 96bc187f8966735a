package zklatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrCancelLeadership is returned by a Selector's StateChanged, alone or wrapped, to ask
// that TakeLeadership be interrupted (CancelLeadershipException in article 004).
var ErrCancelLeadership = errors.New("cancel the leadership")

// ConnectionState is a change of a holder's connection (ConnectionState in
// Curator).
type ConnectionState int

// The states.
const (
	Suspended   ConnectionState = iota // the connection is broken; the session may still continue
	Reconnected                        // there is a connection again, of the same session
	Lost                               // the session has ended, or may have by the holder's clock
)

func (s ConnectionState) String() string {
	switch s {
	case Suspended:
		return "suspended"
	case Reconnected:
		return "reconnected"
	case Lost:
		return "lost"
	}
	return fmt.Sprintf("ConnectionState(%d)", int(s))
}

// CancelInDoubt is the recommended StateChanged (LeaderSelectorListenerAdapter in
// article 004): it cancels the leadership when the connection is suspended or lost.
func CancelInDoubt(state ConnectionState) error {
	if state == Reconnected {
		return nil
	}
	return fmt.Errorf("connection %v: %w", state, ErrCancelLeadership)
}

// continues reports whether s is the session with this id, and was confirmed recently
// enough, even if there is no connection now.
func (c *Client) continues(s Session, id int64) bool {
	return s.ID == id && time.Now().Before(c.trustedUntil(s))
}

// listen calls stateChanged with each change of the connection of session id, until the
// session is lost, until stateChanged cancels the leadership, with which it calls
// interrupt, or until ctx ends or stop is called, which joins it. A loss before stop is
// always reported.
func (c *Client) listen(ctx context.Context, id int64, stateChanged func(ConnectionState) error, interrupt func(error)) (stop func()) {
	ctx, end := context.WithCancel(ctx)
	cancels := func(state ConnectionState) bool {
		err := stateChanged(state)
		if errors.Is(err, ErrCancelLeadership) {
			interrupt(err)
			return true
		}
		if err != nil {
			c.log.Warn("a listener of the connection has failed", "state", state, "error", err)
		}
		return false
	}
	first, _ := c.tree.Session()
	var group sync.WaitGroup
	group.Go(func() {
		link, suspended := first.Link, false
		for {
			s, changed := c.tree.Session()
			if !c.continues(s, id) {
				cancels(Lost)
				return
			}
			if (s.Link == 0 || s.Link != link) && !suspended { // also if there is another connection already
				suspended = true
				if cancels(Suspended) {
					return
				}
			}
			if s.Link != 0 && suspended {
				suspended = false
				if cancels(Reconnected) {
					return
				}
			}
			link = s.Link
			timer := time.NewTimer(time.Until(c.trustedUntil(s)))
			select {
			case <-timer.C:
			case <-changed:
			case <-ctx.Done():
				timer.Stop()
				if s, _ := c.tree.Session(); !c.continues(s, id) {
					cancels(Lost)
				}
				return
			}
			timer.Stop()
		}
	})
	return func() {
		end()
		group.Wait()
	}
}
