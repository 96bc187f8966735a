package list

import (
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	wirev1 "conclave/wire/v1"
)

const (
	// deltaPays is how many times smaller than its list a delta is.
	deltaPays = 4
	// deltaAhead is how far the same element is searched for after a difference.
	// Lists that differ more than that in one place are sent as they are.
	deltaAhead = 64
	// deltaMost is the size of the largest delta. A larger list has parts instead.
	deltaMost = PartsFrom
)

// DeltaTo returns the changes that make next of l, without the versions and the
// name, or nil if sending next as it is costs about as much.
func (l *List) DeltaTo(next *List) *wirev1.Delta {
	size := next.Size()
	if size < DeltaFrom {
		return nil
	}
	d := &wirev1.Delta{BaseHash: l.hash, Values: uint32(len(next.Values)), Publishers: uint32(len(next.Publishers)), PublishersHash: next.publishersHash}
	bytes := 0
	pays := func(more int) bool {
		bytes += more
		return bytes*deltaPays < size && bytes < deltaMost
	}
	sameValue := func(i, j int) bool { return l.Values[i] == next.Values[j] }
	editValues := func(at, remove, from, n int) bool {
		insert := next.Values[from : from+n]
		d.ValueEdits = append(d.ValueEdits, &wirev1.ValueEdit{At: uint32(at), Remove: uint32(remove), Insert: insert})
		return pays(12 + 2*n + textBytes(insert))
	}
	samePublisher := func(i, j int) bool { return l.Publishers[i] == next.Publishers[j] }
	editPublishers := func(at, remove, from, n int) bool {
		insert := next.Publishers[from : from+n]
		if slices.Equal(l.Publishers[at:at+remove], insert) {
			return true
		}
		d.PublisherEdits = append(d.PublisherEdits, &wirev1.PublisherEdit{At: uint32(at), Remove: uint32(remove), Insert: insert})
		return pays(12 + 4*n)
	}
	var ok bool
	if len(l.Values) == len(l.Publishers) && len(next.Values) == len(next.Publishers) {
		// One value of each publisher, which distinguishes values that repeat.
		ok = edits(len(l.Values), len(next.Values), func(i, j int) bool { return l.Publishers[i] == next.Publishers[j] && l.Values[i] == next.Values[j] },
			func(at, remove, from, n int) bool {
				return editValues(at, remove, from, n) && editPublishers(at, remove, from, n)
			})
	} else {
		ok = edits(len(l.Values), len(next.Values), sameValue, editValues) &&
			edits(len(l.Publishers), len(next.Publishers), samePublisher, editPublishers)
	}
	if !ok {
		return nil
	}
	if next.hashes == nil {
		if next.hashes = apply(l.hashed(), hashEdits(d.ValueEdits)); len(d.ValueEdits) == 0 {
			next.hashes = slices.Clone(next.hashes) // the next delta may be made in them
		}
	}
	if d.ValuesHash = orderHash(next.hashes); proto.Size(d)*deltaPays >= size {
		return nil
	}
	return d
}

// Next returns the list with these values and publishers, and its delta from l as DeltaTo
// makes it. Where there is one, only what has changed is hashed.
func (l *List) Next(values []string, publishers []uint32) (next *List, delta *wirev1.Delta) {
	next = unhashed(values, publishers)
	delta = l.DeltaTo(next)
	next.hash = next.contentHash()
	return next, delta
}

// edits calls edit for each range of a list of base elements that is replaced, with the
// range of a list of next ones that replaces it, in order. It stops and returns false if
// edit does, or if the two differ too much.
func edits(base, next int, same func(i, j int) bool, edit func(at, remove, from, insert int) bool) bool {
	i, j := 0, 0
	for i < base && j < next {
		if same(i, j) {
			i, j = i+1, j+1
			continue
		}
		removed, inserted, found := resume(base-i, next-j, func(removed, inserted int) bool { return same(i+removed, j+inserted) })
		if !found || !edit(i, removed, j, inserted) {
			return false
		}
		i, j = i+removed, j+inserted
	}
	return i == base && j == next || edit(i, base-i, j, next-j)
}

// resume returns after how many elements of each the same ones follow. Fewer
// elements in all are preferred.
func resume(base, next int, same func(i, j int) bool) (removed, inserted int, found bool) {
	for sum := 1; sum <= 2*deltaAhead; sum++ {
		for removed := max(0, sum-deltaAhead); removed <= min(sum, deltaAhead); removed++ {
			inserted := sum - removed
			if removed < base && inserted < next && same(removed, inserted) {
				return removed, inserted, true
			}
		}
	}
	return base, next, base+next <= 2*deltaAhead
}

// Apply returns the list, with this ContentHash, that the delta makes of l, its base.
// It returns an error, and no list, if the delta does not fit or the result is not the
// list that it names by hashes: the caller must then ask for the whole list. Its cost
// is bounded by that of l and of the message.
func (l *List) Apply(d *wirev1.Delta, hash uint64) (*List, error) {
	return l.apply(d, hash, math.MaxInt, nil)
}

// apply is Apply, for a list of at most so many bytes. If replaced is not nil, the values
// may stay in their place, so that l is of no more use, and replaced is called with those
// of each edit before.
func (l *List) apply(d *wirev1.Delta, hash uint64, limit int, replaced func(removed, inserted []string)) (*List, error) {
	out, err := l.edited(d)
	if err != nil {
		return nil, err
	}
	bytes := bytesOf(int(d.GetValues()), int(d.GetPublishers()), out.text)
	switch values, publishers := orderHash(out.hashes), out.publishersHash; {
	case values != d.GetValuesHash():
		err = fmt.Errorf("the values have the hash %x, not %x", values, d.GetValuesHash())
	case publishers != d.GetPublishersHash():
		err = fmt.Errorf("the publishers have the hash %x, not %x", publishers, d.GetPublishersHash())
	case bytes > limit:
		err = &TooLarge{uint64(bytes)}
	}
	if err != nil {
		l.takeBack(out, d)
		return nil, err
	}
	if replaced != nil {
		for _, e := range d.GetValueEdits() {
			replaced(l.Values[e.GetAt():e.GetAt()+e.GetRemove()], e.GetInsert())
		}
	}
	if out.Values = l.Values; replaced == nil || moves(d) {
		out.Values = apply(l.Values, d.GetValueEdits())
	} else {
		overwrite(l.Values, d.GetValueEdits())
	}
	if out.hash = hash; hash == 0 {
		out.hash = out.contentHash()
	}
	return out, nil
}

// takeBack undoes what edited has done to the hashes of l.
func (l *List) takeBack(out *List, d *wirev1.Delta) {
	if l.hashes != nil {
		return
	}
	for _, e := range d.GetValueEdits() {
		copy(out.hashes[e.GetAt():], hashesOf(l.Values[e.GetAt():e.GetAt()+e.GetRemove()]))
	}
	l.hashes = out.hashes
}

// Edit returns the list that edits make of l, and their delta as DeltaTo makes it. An error
// means that they do not fit.
func (l *List) Edit(values []*wirev1.ValueEdit, publishers []*wirev1.PublisherEdit) (next *List, delta *wirev1.Delta, err error) {
	d := &wirev1.Delta{BaseHash: l.hash, ValueEdits: values, PublisherEdits: publishers, Values: uint32(len(l.Values)), Publishers: uint32(len(l.Publishers))}
	for _, e := range values {
		d.Values += uint32(len(e.GetInsert())) - e.GetRemove()
	}
	for _, e := range publishers {
		d.Publishers += uint32(len(e.GetInsert())) - e.GetRemove()
	}
	if next, err = l.edited(d); err != nil {
		return nil, nil, err
	}
	next.Values = apply(l.Values, values)
	d.ValuesHash, d.PublishersHash = orderHash(next.hashes), next.publishersHash
	next.hash = next.contentHash()
	if size := proto.Size(d); next.Size() >= DeltaFrom && size*deltaPays < next.Size() && size < deltaMost {
		delta = d
	}
	return next, delta, nil
}

// edited returns the list that the edits of a delta make of l, without its values and its
// hash. Where each replaces as many values, its hashes are those of l, which computes them
// again if they are needed.
func (l *List) edited(d *wirev1.Delta) (*List, error) {
	if err := fit(d.GetValueEdits(), len(l.Values), d.GetValues()); err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	if err := fit(d.GetPublisherEdits(), len(l.Publishers), d.GetPublishers()); err != nil {
		return nil, fmt.Errorf("publishers: %w", err)
	}
	out := &List{Publishers: apply(l.Publishers, d.GetPublisherEdits()), publishersHash: l.publishersHash, text: l.text}
	if len(d.GetPublisherEdits()) > 0 {
		out.publishersHash = orderHash(out.Publishers)
	}
	for _, e := range d.GetValueEdits() {
		out.text += textBytes(e.GetInsert()) - textBytes(l.Values[e.GetAt():e.GetAt()+e.GetRemove()])
	}
	edits := hashEdits(d.GetValueEdits())
	if moves(d) {
		out.hashes = apply(l.hashed(), edits)
		return out, nil
	}
	out.hashes, l.hashes = l.hashed(), nil
	overwrite(out.hashes, edits)
	return out, nil
}

// moves reports whether an edit does not replace as many values as it inserts.
func moves(d *wirev1.Delta) bool {
	return slices.ContainsFunc(d.GetValueEdits(), func(e *wirev1.ValueEdit) bool { return int(e.GetRemove()) != len(e.GetInsert()) })
}

// hashEdit is a ValueEdit of the hashes.
type hashEdit struct {
	*wirev1.ValueEdit
	insert []uint64
}

// GetInsert returns the hashes of the values that are inserted.
func (e hashEdit) GetInsert() []uint64 { return e.insert }

func hashEdits(edits []*wirev1.ValueEdit) []hashEdit {
	out := make([]hashEdit, len(edits))
	for i, e := range edits {
		out[i] = hashEdit{e, hashesOf(e.GetInsert())}
	}
	return out
}

// edit is a ValueEdit, a PublisherEdit or a hashEdit.
type edit[T any] interface {
	GetAt() uint32
	GetRemove() uint32
	GetInsert() []T
}

// fit returns an error unless the edits make count elements of a number of them.
func fit[T any, E edit[T]](edits []E, of int, count uint32) error {
	from, got := int64(0), int64(of)
	for _, e := range edits {
		at, remove := int64(e.GetAt()), int64(e.GetRemove())
		if at < from || at+remove > int64(of) {
			return fmt.Errorf("an edit of %d elements at %d does not fit into %d from %d on", remove, at, of, from)
		}
		from = at + remove
		got += int64(len(e.GetInsert())) - remove
	}
	if got != int64(count) {
		return fmt.Errorf("%d elements, not %d", got, count)
	}
	return nil
}

// apply returns base with edits that fit. It is base itself if there are none: of an
// update the publishers stay.
func apply[T any, E edit[T]](base []T, edits []E) []T {
	if len(edits) == 0 {
		return base
	}
	count := len(base)
	for _, e := range edits {
		count += len(e.GetInsert()) - int(e.GetRemove())
	}
	out, from := make([]T, 0, count), 0
	for _, e := range edits {
		out = append(append(out, base[from:e.GetAt()]...), e.GetInsert()...)
		from = int(e.GetAt() + e.GetRemove())
	}
	return append(out, base[from:]...)
}

// overwrite is apply in base, for edits that replace as many elements.
func overwrite[T any, E edit[T]](base []T, edits []E) {
	for _, e := range edits {
		copy(base[e.GetAt():], e.GetInsert())
	}
}
