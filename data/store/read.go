package store

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"conclave"
	"conclave/wire"
	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

// Answer answers a session's request for one datum, as the session can take it: a list
// that is large as the changes of one that the session has, or in parts of about limit
// bytes. A list of more than most bytes is not sent; 0 is list.MaxBytes. count is the
// number of its values, 0 if the session has them. begun reports whether the answer is a
// further part of a list that was read before.
//
// If the session has already pushed this version or a higher one with another content,
// the counter rises above it: otherwise subscribers would take the new content for older
// than what they have (the race of two slot tables in article 002). A version is only
// what some client claims to have, so it raises the counter to s.claims at most.
//
// All parts are of the list that the first one was of, although it may have changed
// since: it is kept while it is read, as the bases of deltas are, so that a list that
// changes all the time can be read. If it is not kept any more, the answer begins with
// the present one. What may be missing is that of now; the session takes what the first
// part said into account as well.
func (s *Store) Answer(want *wirev1.Want, limit, most int, now time.Time) (f *wirev1.Fetched, count int, begun bool) {
	d := s.data[want.GetDataInfoId()]
	if d == nil {
		d = &datum{id: want.GetDataInfoId(), version: s.counter} // reads as empty; not stored
	}
	f = &wirev1.Fetched{Datum: &wirev1.Datum{DataInfoId: d.id}}
	if c, version := s.bases.reading(d, want); c != nil {
		f.Datum.Version, f.Hash = version, c.Hash()
		c.sendPart(f, list.Position{Values: int(want.GetValuesAt()), Publishers: int(want.GetPublishersAt())}, limit, now)
		s.noteMarks(f, d, now)
		return f, len(c.Values), true
	}
	c := s.bases.content(d)
	f.Hash, f.Same = c.Hash(), c.Hash() == want.GetHash()
	if claimed := min(want.GetVersion(), s.claims); !f.Same && claimed >= d.version {
		s.counter = max(s.counter, claimed) + 1
		d.version = s.counter
	}
	f.Datum.Version = d.version
	s.noteMarks(f, d, now)
	if f.Same {
		return f, 0, false
	}
	if want.GetDeltas() {
		f.Delta = s.bases.delta(d, want.GetHash())
	}
	switch bytes := c.Bytes(); {
	case want.GetParts() && bytes > cmp.Or(most, list.MaxBytes): // some subscriber needs the whole of it
		f.TooLarge, f.Delta = uint64(bytes), nil
	case f.Delta != nil:
	case want.GetParts() && bytes > list.PartsFrom:
		c.sendPart(f, list.Position{}, limit, now)
	default:
		f.Datum.Values, f.Datum.Publishers = c.Values, c.Publishers
	}
	return f, len(c.Values), false
}

// carryBytes is the size of the largest answer that is sent to a session unasked.
const carryBytes = 4 << 10

// IsMarked reports whether something may be missing from a datum.
func (s *Store) IsMarked(id string, now time.Time) bool { return now.Before(s.markOf(id, now).until) }

// Carry returns what Answer returns to a session that has the content of a hash, or nil
// if that is not small.
func (s *Store) Carry(id string, hash uint64, now time.Time) (f *wirev1.Fetched, count int) {
	f, count, _ = s.Answer(&wirev1.Want{DataInfoId: id, Hash: hash, Deltas: true}, 0, 0, now)
	if proto.Size(f) > carryBytes {
		return nil, 0
	}
	return f, count
}

// noteMarks adds what may be missing from the datum to an answer.
func (s *Store) noteMarks(out *wirev1.Fetched, d *datum, now time.Time) {
	if m := s.markOf(d.id, now); now.Before(m.until) {
		out.UnexplainedVersion, out.UnconfirmedMs = m.unexplained, wire.Ms(m.until.Sub(now))
	}
	if left := s.Incomplete(now); left > 0 {
		out.IncompleteMs, out.Withdrawn = wire.Ms(left), d.withdrawn()
	}
}

// Datum is what subscribers see under one id.
type Datum struct {
	ID          string
	Version     int64
	Values      []string
	Publishers  int
	Unconfirmed time.Duration // how much longer it is marked, as Answer reports it
}

// IDs returns the ids that begin with prefix and under which subscribers see something,
// in no order: those that have match, or a value with it.
func (s *Store) IDs(prefix, match string) (ids []string) {
	has := func(v string) bool { return strings.Contains(v, match) }
	for id, d := range s.data {
		named := has(id)
		if strings.HasPrefix(id, prefix) && slices.ContainsFunc(d.regs, func(r *registration) bool {
			values, ok := r.visible()
			return ok && (named || slices.ContainsFunc(values, has))
		}) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Datum returns what subscribers see of an id, and false if that is nothing.
func (s *Store) Datum(id string, now time.Time) (Datum, bool) {
	d := s.data[id]
	if d == nil {
		return Datum{}, false
	}
	var values []string // not content, which would be kept for each of them
	n := 0
	for _, r := range d.regs {
		if v, ok := r.visible(); ok {
			values = append(values, v...)
			n++
		}
	}
	return Datum{ID: id, Version: d.version, Values: values, Publishers: n, Unconfirmed: max(0, s.markOf(id, now).until.Sub(now))}, n > 0
}

// All returns every copy, sorted by data, registration id and owner.
func (s *Store) All() []Copy {
	var out []Copy
	for id, d := range s.data {
		for _, r := range d.regs {
			for _, c := range r.copies {
				out = append(out, copyOf(id, r, c))
			}
		}
	}
	slices.SortFunc(out, compareCopies)
	return out
}

// Digest returns what a diff compares first: the number of an owner's copies,
// tombstones included, and the sum of their list.EntryHash.
func (s *Store) Digest(owner conclave.NodeID) (count, sum uint64) {
	if o := s.owners[owner]; o != nil {
		return o.count, o.sum
	}
	return 0, 0
}

// Checksum returns the sum over all copies of all owners, in no order, and their
// number: two stores with the same copies have the same.
func (s *Store) Checksum() (sum uint64, entries int) {
	for owner, o := range s.owners {
		h := fnv.New64a()
		_, _ = h.Write([]byte(owner.String())) // never fails
		sum += o.sum * (h.Sum64() | 1)
		entries += int(o.count)
	}
	return sum, entries
}
