package registry

import (
	"cmp"
	"slices"
	"time"

	"conclave/internal/trace"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// diffBytes limits the size of one answer; a data node asks again for the rest.
const diffBytes = 1 << 20

// Diff answers a data node that compares its copies of a slot with this
// session's registrations. It is also a fence: it adopts the asker's leader
// epoch (adopted reports whether that was new), and computes the answer under
// the same lock. Everything that was sent at a lower epoch was in the set
// before, so the answer includes it; everything that comes into the set later is
// sent at the new epoch.
//
// Registrations that are held back are left out. While their clients may still
// come back or expire, an answer without them is not complete: Diff then returns
// an error, for a client lease at most. A slot that waits for the answer is not
// read meanwhile, so no subscriber sees a shorter list.
//
// Of one of many slots in a request only the digest is compared.
func (r *Registry) Diff(req *wirev1.DiffRequest, digest bool, now time.Time) (res *wirev1.DiffResponse, adopted bool, err error) {
	s, epoch := r.of(int(req.GetSlot())), wire.EpochIn(req.GetLeaderEpoch())
	address := req.GetAskerAddress()
	if epoch == s.epoch {
		address = "" // the table named this epoch's leader, so the route is known
	}
	adopted, ok := r.Adopt(s.number, epoch, address, now)
	switch {
	case ok:
	case s.epoch.Less(epoch):
		return nil, false, wire.Errorf(wire.CodeBadRequest, "leader epoch %s is implausibly high: slot %d is at %s", epoch, s.number, s.epoch)
	default:
		refusal := wire.Errorf(wire.CodeStaleEpoch, "slot %d is at leader epoch %s, which is above %s", s.number, s.epoch, epoch)
		refusal.Epoch = s.epoch
		return nil, false, refusal
	}
	if res, err = r.compare(s, req, digest, now); err != nil {
		return nil, adopted, err
	}
	if !res.Summarize && !res.More {
		s.covered = epoch
	}
	res.HighestPushed = s.pushed
	r.trace.Claim(trace.Claim{Kind: trace.Answered, Slot: s.number, Epoch: epoch, Peer: wire.NodeIn(req.GetAsker()), Key: req.GetSession().GetIncarnation()})
	return res, adopted, nil
}

// compare computes the answer to a diff.
func (r *Registry) compare(s *slotState, req *wirev1.DiffRequest, digest bool, now time.Time) (*wirev1.DiffResponse, error) {
	if uint64(len(s.held.regs)) == req.GetCount() && s.digest == req.GetDigest() {
		return &wirev1.DiffResponse{Same: true}, nil
	}
	if digest || !req.GetSummarized() && req.GetCount() > 0 {
		return &wirev1.DiffResponse{Summarize: true}, nil
	}
	res := &wirev1.DiffResponse{}
	theirs := make(map[string]int64, len(req.GetEntries()))
	for _, e := range req.GetEntries() {
		theirs[e.GetId()] = e.GetVersion()
		// The asker's version is above ours: the client broke the rule of
		// rising versions. That copy is removed, and ours is put by the next
		// diff.
		if reg := r.held(s, e.GetId()); reg == nil || reg.version < e.GetVersion() {
			res.Removed = append(res.Removed, e)
		}
	}
	missing := set{}
	for _, reg := range s.held.regs {
		if v, ok := theirs[reg.id]; !ok || v < reg.version {
			missing.regs = append(missing.regs, reg)
		}
	}
	slices.SortFunc(res.Removed, func(a, b *wirev1.DiffEntry) int { return cmp.Compare(a.GetId(), b.GetId()) })
	size, awaited := 0, 0
	for _, reg := range missing.sorted() {
		if !r.mayPublish(reg, now) {
			if !reg.owner.Announced { // a client that announced its end may never come back
				awaited++
			}
			continue
		}
		if size > 0 && size+reg.size() > diffBytes {
			res.More = true
			break
		}
		res.Puts = append(res.Puts, reg.message())
		size += reg.size()
	}
	switch {
	case awaited == 0 || res.More:
	case len(res.Puts) > 0:
		res.More = true // the others are for the next request
	default:
		return nil, wire.Errorf(wire.CodeUnavailable, "%d registrations of slot %d wait for a message of their clients", awaited, s.number)
	}
	return res, nil
}
