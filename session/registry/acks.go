package registry

import wirev1 "conclave/wire/v1"

const (
	entryBytes  = 64   // what an entry of an outbox takes beside its strings, about
	messageAcks = 4096 // how many of a kind one message to a client carries
)

// acks holds acknowledgements to be sent: the highest version of each id.
type acks struct {
	order   []string
	version map[string]int64
}

// add adds acknowledgements, and returns how many bytes more they take.
func (a *acks) add(more []Ack) (bytes int) {
	if a.version == nil && len(more) > 0 {
		a.version = make(map[string]int64, len(more))
	}
	for _, m := range more {
		have, waits := a.version[m.ID]
		if !waits {
			a.order = append(a.order, m.ID)
			bytes += entryBytes + len(m.ID)
		}
		a.version[m.ID] = max(have, m.Version)
	}
	return bytes
}

// next removes and returns as many as one message carries, and how many bytes they
// took.
func (a *acks) next() (out []*wirev1.Ack, bytes int) {
	n := min(len(a.order), messageAcks)
	block := make([]wirev1.Ack, n) // one allocation for all
	for i, id := range a.order[:n] {
		block[i].Id, block[i].Version = id, a.version[id]
		delete(a.version, id)
		out = append(out, &block[i])
		bytes += entryBytes + len(id)
	}
	if a.order = a.order[n:]; len(a.order) == 0 {
		*a = acks{}
	}
	return out, bytes
}
