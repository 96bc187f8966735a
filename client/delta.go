package client

import (
	"fmt"

	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// pushed gives a push to one subscription. A delta that does not fit what the
// subscription has is dropped, and the whole list is asked for: the session
// then knows again what the subscription has. The client's lock is held.
func (l *link) pushed(s *Subscription, p *wirev1.Push) {
	if p.GetPart() != nil {
		l.pushedPart(s, p)
		return
	}
	delete(l.parts, s)
	version, list := p.GetDatum().GetVersion(), wire.ListOf(p.GetDatum())
	switch delta := p.GetDelta(); {
	case delta == nil:
	case delta.GetVersion() <= s.seen.Version:
		return // the subscription has a later list, through another session
	default:
		var err error
		if list, err = s.rebuild(delta); err == nil {
			version = delta.GetVersion()
			break
		}
		l.askAgain(s, err)
		return
	}
	s.pushed(version, list, p.GetHash(), wire.FromMs(p.GetUnconfirmedMs()))
}

// askAgain asks for the whole list, once in each message: what the session has sent
// does not fit. The client's lock is held.
func (l *link) askAgain(s *Subscription, why error) {
	if l.unfit[s] {
		return
	}
	l.client.log.Info("a change does not fit: the whole list is read again", "dataId", s.data.DataID, "error", why)
	l.unfit[s] = true
	l.subscribes = append(l.subscribes, s)
	l.ready.Set()
}

// rebuild returns the list that a delta makes of what the subscription has.
func (s *Subscription) rebuild(d *wirev1.Delta) (*wire.List, error) {
	if s.list == nil || s.hash != d.GetBaseHash() || s.seen.Version != d.GetBaseVersion() {
		return nil, fmt.Errorf("version %d is made of version %d, and version %d is here", d.GetVersion(), d.GetBaseVersion(), s.seen.Version)
	}
	return s.list.Apply(d)
}
