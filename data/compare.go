package data

import (
	"conclave"
	"conclave/slot"
)

// CopyInfo summarizes the copy of one slot at this node, for tests that compare
// the copies of several nodes: at one leader epoch and one position in the
// feed, all copies have the same digest.
type CopyInfo struct {
	Slot     int
	Leads    bool           // this node serves the slot
	Detached bool           // it neither serves the slot nor reads its leader's feed; Digest is not comparable
	Epoch    conclave.Epoch // of the leader
	Position uint64
	Digest   uint64 // of every entry's owner, id and version
	Entries  int
}

// Copies lists the slots of which this node has a complete copy: those that it
// serves, those that it follows, and those whose copy is of an earlier feed, for
// example while it takes the slot over.
func (s *Server) Copies() []CopyInfo {
	var out []CopyInfo
	for _, r := range s.replicas.all() {
		r.mu.Lock()
		info := CopyInfo{Slot: r.id}
		switch {
		case r.store == nil:
		case r.state == slot.Serving:
			info.Leads, info.Epoch, info.Position = true, r.epoch, r.store.Position()
		case r.state == "" && r.attached && !r.leader.IsZero() && r.copyEpoch == r.leaderEpoch:
			info.Epoch, info.Position = r.copyEpoch, r.copyPosition
		default:
			info.Detached, info.Epoch, info.Position = true, r.copyEpoch, r.copyPosition
		}
		if !info.Epoch.IsZero() {
			info.Digest, info.Entries = r.store.Checksum()
			out = append(out, info)
		}
		r.mu.Unlock()
	}
	return out
}
