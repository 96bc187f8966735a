package store

import (
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"conclave"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// Read answers a session's request for one datum. If the session has already
// pushed this version or a higher one with another content, the counter rises
// above it: otherwise subscribers would take the new content for older than
// what they have (the race of two slot tables in article 002). A version is only
// what some client claims to have, so it raises the counter to s.claims at most.
func (s *Store) Read(data string, version int64, hash uint64, now time.Time) *wirev1.Fetched {
	d := s.data[data]
	if d == nil {
		d = &datum{id: data, version: s.counter} // reads as empty; not stored
	}
	c := d.content()
	same := hash == c.hash
	if claimed := min(version, s.claims); !same && claimed >= d.version {
		s.counter = max(s.counter, claimed) + 1
		d.version = s.counter
	}
	out := &wirev1.Fetched{
		Datum: &wirev1.Datum{DataInfoId: data, Version: d.version},
		Same:  same,
		Hash:  c.hash,
	}
	if !same {
		out.Datum.Values, out.Datum.Publishers = c.Values, c.Publishers
	}
	s.noteMarks(out, d, now)
	return out
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

// Shorten replaces the content of an answer of Read by a delta, if the session has
// the content of this hash and a delta to that is much smaller. A list that is too large
// to be sent is not sent in this way either: some subscriber needs the whole of it.
func (s *Store) Shorten(f *wirev1.Fetched, hash uint64, most int) {
	d := s.data[f.GetDatum().GetDataInfoId()]
	if d == nil || f.GetSame() || d.content().bytes > most {
		return
	}
	if f.Delta = s.bases.delta(d, hash); f.Delta != nil {
		f.Datum.Values, f.Datum.Publishers = nil, nil
	}
}

// Values returns the values of the copies of a registration in this version, one
// for each owner that has one. They are shared with the store.
func (s *Store) Values(data, id string, version int64) (out [][]string) {
	d := s.data[data]
	if d == nil {
		return nil
	}
	i, found := d.find(id)
	if !found {
		return nil
	}
	for _, c := range d.regs[i].copies {
		if c.version == version && !c.withdrawn {
			out = append(out, c.values)
		}
	}
	return out
}

// Datum is what subscribers see under one id.
type Datum struct {
	ID          string
	Version     int64
	Values      []string
	Publishers  int
	Unconfirmed time.Duration // how much longer it is marked, as Read reports it
}

// IDs returns the ids that begin with prefix and under which subscribers see
// something, in no order.
func (s *Store) IDs(prefix string) (ids []string) {
	for id, d := range s.data {
		if strings.HasPrefix(id, prefix) && slices.ContainsFunc(d.regs, func(r *registration) bool { _, ok := r.visible(); return ok }) {
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

// Of returns one owner's copies, in no order.
func (s *Store) Of(owner conclave.NodeID) []Copy {
	o := s.owners[owner]
	if o == nil {
		return nil
	}
	out := make([]Copy, 0, o.count)
	for id, d := range s.data {
		for _, r := range d.regs {
			if at := r.of(o); at >= 0 {
				out = append(out, copyOf(id, r, r.copies[at]))
			}
		}
	}
	return out
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
// tombstones included, and the sum of their wire.EntryHash.
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
