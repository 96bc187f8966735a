package registry

import (
	"time"

	"conclave"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// A list that is larger than wire.PartsFrom is read from the slot's leader in parts,
// one in each Fetch, and is sent to clients in parts. In between it is whole: nothing
// is offered to a subscriber before the last part has come. (ADR 0093.)

// partsPause is the time after which a list is read again of which a part did not fit.
const partsPause = time.Second

// proceed asks for the next part of a list, and reports whether there are parts of one
// at this epoch.
func (tp *topic) proceed(w *wirev1.Want, epoch conclave.Epoch) bool {
	if tp.parts != nil && tp.parts.epoch != epoch {
		tp.parts = nil
	}
	if tp.parts == nil {
		return false
	}
	at := tp.parts.list.At()
	w.PartHash, w.PublishersHash = tp.parts.list.Hash(), tp.parts.list.PublishersHash()
	w.ValuesAt, w.PublishersAt = uint32(at.Values), uint32(at.Publishers)
	return true
}

// assemble takes a part of an answer. With the last part it returns the answer as if
// it had come whole; otherwise it returns nil, and the topic is due. A change that was
// reported between two parts is read afterwards. A list of more than most bytes is
// returned as one that is too large, with its first part.
func (tp *topic) assemble(f *wirev1.Fetched, epoch conclave.Epoch, window time.Duration, most int, now time.Time) *wirev1.Fetched {
	p, first := tp.parts, f.GetPart().GetValuesAt() == 0 && f.GetPart().GetPublishersAt() == 0
	if p == nil || first || p.epoch != epoch {
		p = &parts{epoch: epoch, version: f.GetDatum().GetVersion(), list: wire.Assembly{Limit: most}}
		tp.parts = p
	}
	if bytes := f.GetPart().GetBytes(); bytes > uint64(most) {
		return &wirev1.Fetched{Datum: f.GetDatum(), TooLarge: bytes}
	}
	list, err := p.list.Add(f.GetHash(), f.GetPart(), f.GetDatum().GetValues(), f.GetDatum().GetPublishers())
	if err != nil {
		tp.parts = nil
		tp.plan(now.Add(partsPause))
		return nil
	}
	if until := now.Add(wire.FromMs(f.GetUnconfirmedMs())); until.After(p.until) {
		p.until = until
	}
	p.below = max(p.below, f.GetUnexplainedVersion())
	if until := now.Add(wire.FromMs(f.GetIncompleteMs())); f.GetIncompleteMs() > 0 && !until.Before(p.incomplete) {
		p.incomplete, p.withdrawn = until, f.GetWithdrawn()
	}
	if list == nil {
		tp.plan(now)
		return nil
	}
	if tp.parts = nil; p.again {
		tp.plan(now.Add(window))
	}
	return &wirev1.Fetched{
		Datum: &wirev1.Datum{DataInfoId: tp.key, Version: p.version, Values: list.Values, Publishers: list.Publishers}, Hash: f.GetHash(),
		UnexplainedVersion: p.below, UnconfirmedMs: wire.Ms(p.until.Sub(now)), IncompleteMs: wire.Ms(p.incomplete.Sub(now)), Withdrawn: p.withdrawn,
	}
}
