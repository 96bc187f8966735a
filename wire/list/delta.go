package list

import (
	"fmt"
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
		hashes, err := apply(l.hashed(), hashEdits(d.ValueEdits), len(next.Values))
		if err != nil {
			return nil // cannot be: these are the edits that make next
		}
		next.hashes = hashes
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

// Changes returns the values that next has more often than base, and those that base has
// more often, each as often as that. The edits that make next of base may be given: then the
// two are not compared.
func Changes(base, next []string, edits []*wirev1.ValueEdit) (added, removed []string) {
	if len(edits) == 0 {
		return difference(base, next)
	}
	var before, after []string
	for _, e := range edits {
		before = append(before, base[e.GetAt():e.GetAt()+e.GetRemove()]...)
		after = append(after, e.GetInsert()...)
	}
	return difference(before, after)
}

func difference(base, next []string) (added, removed []string) {
	for len(base) > 0 && len(next) > 0 && base[0] == next[0] {
		base, next = base[1:], next[1:]
	}
	for len(base) > 0 && len(next) > 0 && base[len(base)-1] == next[len(next)-1] {
		base, next = base[:len(base)-1], next[:len(next)-1]
	}
	more := make(map[string]int, len(base)) // than in next
	for _, v := range base {
		more[v]++
	}
	for _, v := range next {
		if more[v] > 0 {
			more[v]--
		} else {
			added = append(added, v)
		}
	}
	for _, v := range base {
		if more[v] > 0 {
			more[v]--
			removed = append(removed, v)
		}
	}
	return added, removed
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
	out, err := l.edited(d)
	if err != nil {
		return nil, err
	}
	if got := orderHash(out.hashes); got != d.GetValuesHash() {
		err = fmt.Errorf("the values have the hash %x, not %x", got, d.GetValuesHash())
	} else if got := out.publishersHash; got != d.GetPublishersHash() {
		err = fmt.Errorf("the publishers have the hash %x, not %x", got, d.GetPublishersHash())
	}
	if err != nil {
		l.takeBack(out, d)
		return nil, err
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
	d.ValuesHash, d.PublishersHash = orderHash(next.hashes), next.publishersHash
	next.hash = next.contentHash()
	if size := proto.Size(d); next.Size() >= DeltaFrom && size*deltaPays < next.Size() && size < deltaMost {
		delta = d
	}
	return next, delta, nil
}

// edited returns the list that the edits of a delta make of l, without its hash. Where
// each replaces as many values, its hashes are those of l, which computes them again if
// they are needed.
func (l *List) edited(d *wirev1.Delta) (*List, error) {
	values, err := apply(l.Values, d.GetValueEdits(), int(d.GetValues()))
	if err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	publishers, err := apply(l.Publishers, d.GetPublisherEdits(), int(d.GetPublishers()))
	if err != nil {
		return nil, fmt.Errorf("publishers: %w", err)
	}
	out := &List{Values: values, Publishers: publishers, publishersHash: l.publishersHash, text: l.text}
	if len(d.GetPublisherEdits()) > 0 {
		out.publishersHash = orderHash(publishers)
	}
	moves := false
	for _, e := range d.GetValueEdits() {
		moves = moves || int(e.GetRemove()) != len(e.GetInsert())
		out.text += textBytes(e.GetInsert()) - textBytes(l.Values[e.GetAt():e.GetAt()+e.GetRemove()])
	}
	edits := hashEdits(d.GetValueEdits())
	if moves {
		if out.hashes, err = apply(l.hashed(), edits, len(values)); err != nil {
			return nil, fmt.Errorf("values: %w", err)
		}
		return out, nil
	}
	out.hashes, l.hashes = l.hashed(), nil
	for _, e := range edits {
		copy(out.hashes[e.GetAt():], e.insert)
	}
	return out, nil
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

// apply returns base with the edits, which must make count elements of it. It is base
// itself if there are none: of an update the publishers stay.
func apply[T any, E interface {
	GetAt() uint32
	GetRemove() uint32
	GetInsert() []T
}](base []T, edits []E, count int) ([]T, error) {
	if len(edits) == 0 && count == len(base) {
		return base, nil
	}
	most := len(base)
	for _, e := range edits {
		most += len(e.GetInsert())
	}
	if count > most {
		return nil, fmt.Errorf("%d elements cannot be made of %d", count, most)
	}
	out, from := make([]T, 0, count), 0
	for _, e := range edits {
		at, remove := int(e.GetAt()), int(e.GetRemove())
		if at < from || at > len(base) || remove > len(base)-at {
			return nil, fmt.Errorf("an edit of %d elements at %d does not fit into %d from %d on", remove, at, len(base), from)
		}
		if len(out)+at-from+len(e.GetInsert()) > count {
			return nil, fmt.Errorf("more than %d elements", count)
		}
		out = append(append(out, base[from:at]...), e.GetInsert()...)
		from = at + remove
	}
	if len(out)+len(base)-from != count {
		return nil, fmt.Errorf("%d elements, not %d", len(out)+len(base)-from, count)
	}
	return append(out, base[from:]...), nil
}
