package registry

import (
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"conclave"
	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

// answer is the answer to a read of a topic, which may come in parts.
type answer struct {
	epoch   conclave.Epoch // of the slot, at which all parts are read
	list    list.Assembly
	version int64
	mark    mark // what the leader said with any of the parts
	again   bool // the datum may have changed since the first part
}

// unfitPause is the time after which a list is read again of which a part did not fit.
const unfitPause = time.Second

// receive takes an answer to a read of a topic, or a part of one. It reports whether
// what is held is what the leader has. Otherwise the topic is due again, unless the list
// has more bytes than are sent, which are returned. A large list is whole before anything
// is offered to a subscriber; a change that was reported between two of its parts is read
// afterwards.
func (r *Registry) receive(tp *topic, f *wirev1.Fetched, epoch conclave.Epoch, now time.Time) (received bool, tooLarge uint64) {
	if f.GetTooLarge() > 0 {
		return false, f.GetTooLarge()
	}
	a, part := tp.answer, f.GetPart()
	if a == nil || a.epoch != epoch || part.GetValuesAt() == 0 && part.GetPublishersAt() == 0 {
		a = &answer{epoch: epoch, version: f.GetDatum().GetVersion(), list: list.Assembly{Limit: r.limits.maxList()}}
	}
	a.mark.add(f, now)
	tp.answer = nil
	held, bytes := tp.held, 0
	if f.GetSame() {
		if held == nil || held.Hash() != f.GetHash() && f.GetHash() != 0 {
			tp.read(now)
			return false, 0
		}
		if held.version() < a.version {
			held = newDatum(tp.key, a.version, held.List)
		}
	} else {
		whole, err := a.list.Add(f, held.content())
		large, isLarge := errors.AsType[*list.TooLarge](err)
		switch {
		case isLarge:
			return false, large.Bytes
		case err != nil && part != nil:
			tp.read(now.Add(unfitPause))
			return false, 0
		case err != nil:
			tp.whole = true
			tp.read(now)
			return false, 0
		case whole == nil:
			a.again = a.again || tp.due // it changed while this part was on its way
			tp.answer = a
			tp.plan(now)
			return false, 0
		}
		held, tp.whole = newDatum(tp.key, a.version, whole), false
		if bytes = held.size(); f.GetDelta() != nil {
			bytes = proto.Size(f.GetDelta())
		}
		if a.version > tp.raise {
			tp.raise = 0
		}
	}
	if tp.held, tp.mark, tp.bytes = held, a.mark, bytes; a.again {
		tp.plan(now.Add(r.window))
	}
	return true, 0
}
