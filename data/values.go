package data

import (
	"context"

	"connectrpc.com/connect"

	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// Limits of one call of Values: digests in the request, and bytes that are read
// for the answer, after which it is cut. The caller asks for the rest again.
const (
	valuesDigests = 4096
	valuesBytes   = 1 << 20
)

// Values returns the values of copies for a session to which a client came that
// had registered them elsewhere. A copy of any owner will do, since the hash
// decides, and the session registers the values as its own (docs/adr/0077). What
// is not here in that version and with that hash is not found.
func (s *service) Values(_ context.Context, req *connect.Request[wirev1.ValuesRequest]) (*connect.Response[wirev1.ValuesResponse], error) {
	count := 0
	for _, in := range req.Msg.GetSlots() {
		count += len(in.GetDigests())
	}
	if count > valuesDigests {
		return nil, wire.Errorf(wire.CodeTooLarge, "%d digests in one request: the limit is %d", count, valuesDigests)
	}
	if session := wire.NodeIn(req.Msg.GetSession()); !session.IsZero() {
		s.owners.noteContact(session, wire.CallerAddress(req.Header()))
	}
	out := &wirev1.ValuesResponse{}
	room := valuesBytes
	for _, in := range req.Msg.GetSlots() {
		if room <= 0 {
			break
		}
		r := s.replicas.of(int(in.GetSlot()))
		if r == nil {
			return nil, wire.Errorf(wire.CodeUnavailable, "slot %d is not known here", in.GetSlot())
		}
		out.Slots = append(out.Slots, r.values(in, &room))
	}
	return connect.NewResponse(out), nil
}

// values answers for one slot. A slot that is migrating answers as well: the
// values are right whatever else is missing.
func (r *replica) values(in *wirev1.ValuesSlot, room *int) *wirev1.FoundSlot {
	out, copies := r.copies(in)
	if copies == nil {
		return out
	}
	for i, d := range in.GetDigests() { // hashed without the lock
		if *room <= 0 {
			break
		}
		found := &wirev1.FoundValues{}
		for _, values := range copies[i] {
			for _, v := range values {
				*room -= len(v)
			}
			if wire.DigestFits(d, values) {
				found.Found, found.Values = true, values
				break
			}
		}
		out.Found = append(out.Found, found)
	}
	return out
}

// copies returns the values that may have the hashes of a request; nil if the slot
// does not answer at its epoch.
func (r *replica) copies(in *wirev1.ValuesSlot) (out *wirev1.FoundSlot, copies [][][]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	access, epoch := r.access(wire.EpochIn(in.GetLeaderEpoch()), true)
	out = &wirev1.FoundSlot{Slot: uint32(r.id), Access: access, LeaderEpoch: wire.EpochOut(epoch)}
	if access != wirev1.Access_ACCESS_ACCEPT {
		return out, nil
	}
	copies = make([][][]string, len(in.GetDigests()))
	for i, d := range in.GetDigests() {
		copies[i] = r.store.Values(d.GetDataInfoId(), d.GetId(), d.GetVersion())
	}
	return out, copies
}
