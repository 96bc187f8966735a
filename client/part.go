package client

import (
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// parts is a large list of which the session has sent a part.
type parts struct {
	list   wire.Assembly
	broken bool // a part did not fit, and the list was asked for again, or is too large: its rest is ignored
}

// withheld records that the present list of a subscription cannot be received. The
// client's lock is held.
func (l *link) withheld(s *Subscription, why error) {
	s.err = why
	l.client.log.Error("the list cannot be received, what was received before stays", "dataId", s.data.DataID, "id", s.id, "error", why)
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
		a = &parts{list: wire.Assembly{Limit: l.client.config.MaxListBytes}}
		l.parts[s] = a
	}
	if a.broken {
		return
	}
	if bytes := part.GetBytes(); bytes > uint64(l.client.config.MaxListBytes) {
		a.broken = true
		l.withheld(s, wire.Errorf(wire.CodeTooLarge, "the list has %d bytes, at most %d are received", bytes, l.client.config.MaxListBytes))
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
