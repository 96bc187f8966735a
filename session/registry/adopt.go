package registry

import (
	"conclave"
	wirev1 "conclave/wire/v1"
)

// Source is where the values of a registration that a client names by digest may
// be found: here, or else at the leader of its slot.
type Source struct {
	Values []string // with Here
	Here   bool     // this session has the registration in the version that is named

	Slot    int
	Epoch   conclave.Epoch
	Address string // of the slot's leader; "" while it is not known
}

// Sources returns where to look for the values of registrations, in the order of
// their digests. It neither compares hashes nor changes anything: the caller does
// the first without the lock, and then calls Put.
func (r *Registry) Sources(digests []*wirev1.PublisherDigest) []Source {
	out := make([]Source, len(digests))
	if !r.HasTable() {
		return out
	}
	for i, d := range digests {
		reg := r.byID[d.GetId()]
		if reg != nil && reg.key == d.GetDataInfoId() && reg.version == d.GetVersion() && !reg.withdrawn {
			out[i] = Source{Values: reg.values, Here: true}
			continue
		}
		s := r.slotOf(d.GetDataInfoId())
		out[i] = Source{Slot: s.number, Epoch: s.epoch, Address: s.address}
	}
	return out
}

// Copies returns the next live registrations in h, at most the given number and about
// that many bytes but at least one, as they are sent, and whether there are more.
func (r *Registry) Copies(h *Holdings, most, bytes int) (out []*wirev1.Publisher, more bool) {
	for ; most > 0 && bytes > 0 && len(h.left) > 0; most-- {
		for _, reg := range h.next(1) {
			if !reg.withdrawn {
				out = append(out, reg.message())
				bytes -= reg.size()
			}
		}
	}
	return out, len(h.left) > 0
}
