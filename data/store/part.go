package store

import (
	"cmp"
	"slices"
	"time"

	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// Answer answers a session's request for one datum as the session can take it: Read,
// as a delta or in parts. A list of more than most bytes is not sent; 0 is wire.MaxList. count is the number of values in the whole list. begun reports
// whether the answer is a further part of a list that was read before.
func (s *Store) Answer(want *wirev1.Want, limit, most int, now time.Time) (f *wirev1.Fetched, count int, begun bool) {
	if f = s.Continue(want, limit, now); f != nil {
		return f, int(f.GetPart().GetValues()), true
	}
	most = cmp.Or(most, wire.MaxList)
	f = s.Read(want.GetDataInfoId(), want.GetVersion(), want.GetHash(), now)
	count = len(f.GetDatum().GetValues())
	if want.GetDeltas() {
		s.Shorten(f, want.GetHash(), most)
	}
	if want.GetParts() {
		s.Cut(f, limit, most, now)
	}
	return f, count, false
}

// Continue returns the next part of the list that the session is reading in parts,
// or nil if that list is not kept any more: then it reads the present one from its
// beginning. A list that has changed since is kept while it is read, as the bases of
// deltas are. All parts are therefore of one version, and a list that changes all the
// time can be read. What may be missing is that of now; the session takes what the
// first part said into account as well.
func (s *Store) Continue(want *wirev1.Want, limit int, now time.Time) *wirev1.Fetched {
	d := s.data[want.GetDataInfoId()]
	if d == nil || want.GetPartHash() == 0 {
		return nil
	}
	c, version := d.read, d.version
	if c == nil || !c.is(want) {
		at := slices.IndexFunc(s.bases[d.id], func(x *base) bool { return x.is(want) })
		if at < 0 {
			return nil
		}
		c, version = s.bases[d.id][at].content, s.bases[d.id][at].version
	}
	out := &wirev1.Fetched{Datum: &wirev1.Datum{DataInfoId: d.id, Version: version}, Hash: c.hash}
	c.part(out, wire.Position{Values: int(want.GetValuesAt()), Publishers: int(want.GetPublishersAt())}, limit, now)
	s.noteMarks(out, d, now)
	return out
}

// is reports whether c is the list that a session is reading in parts. The same values
// of other publishers are another one.
func (c *content) is(want *wirev1.Want) bool {
	return c.hash == want.GetPartHash() && c.PublishersHash() == want.GetPublishersHash()
}

// Cut leaves the first part of an answer of Read, if its list is large, and nothing of
// a list that is too large to be sent, of more than most bytes.
func (s *Store) Cut(f *wirev1.Fetched, limit, most int, now time.Time) {
	d := s.data[f.GetDatum().GetDataInfoId()]
	if d == nil || f.GetSame() || f.GetDelta() != nil {
		return
	}
	switch c := d.content(); {
	case c.bytes > most:
		f.TooLarge, f.Datum.Values, f.Datum.Publishers = uint64(c.bytes), nil, nil
	case c.bytes > wire.PartsFrom:
		c.part(f, wire.Position{}, limit, now)
	}
}

// part sets the part of c that begins at a position.
func (c *content) part(f *wirev1.Fetched, from wire.Position, limit int, now time.Time) {
	if from == (wire.Position{}) {
		c.reads++
	}
	var next wire.Position
	f.Datum.Values, f.Datum.Publishers, f.Part, next = c.Part(from, c.bytes, limit)
	if c.read = now; c.Ends(next) {
		c.reads = max(0, c.reads-1)
	}
}
