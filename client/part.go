package client

import (
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// parts is a large list of which the session has sent a part.
type parts struct {
	list   wire.Assembly
	broken bool // a part did not fit, and the list was asked for again: its rest is ignored
}

// pushedPart gives a part of a list to one subscription, which has the list when it
// is whole. After a part that does not fit, the whole list is asked for. The client's
// lock is held.
func (l *link) pushedPart(s *Subscription, p *wirev1.Push) {
	part, version := p.GetPart(), p.GetDatum().GetVersion()
	if s.hash != 0 && version <= s.seen.Version {
		delete(l.parts, s)
		return // the subscription has a later list, through another session
	}
	a := l.parts[s]
	if first := part.GetValuesAt() == 0 && part.GetPublishersAt() == 0; first || a == nil {
		a = &parts{}
		l.parts[s] = a
	}
	if a.broken {
		return
	}
	list, err := a.list.Add(p.GetHash(), part, p.GetDatum().GetValues(), p.GetDatum().GetPublishers())
	switch {
	case err != nil:
		a.broken = true
		l.askAgain(s, err)
	case list != nil:
		delete(l.parts, s)
		s.pushed(version, list, p.GetHash(), wire.FromMs(p.GetUnconfirmedMs()))
	}
}
