package list

import (
	"fmt"

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
	d, bytes := &wirev1.Delta{}, 0
	ok := edits(l.Values, next.Values, func(at, remove int, insert []string) bool {
		bytes += 12 + 2*len(insert) + textBytes(insert)
		d.ValueEdits = append(d.ValueEdits, &wirev1.ValueEdit{At: uint32(at), Remove: uint32(remove), Insert: insert})
		return bytes*deltaPays < size && bytes < deltaMost
	}) && edits(l.Publishers, next.Publishers, func(at, remove int, insert []uint32) bool {
		bytes += 12 + 4*len(insert)
		d.PublisherEdits = append(d.PublisherEdits, &wirev1.PublisherEdit{At: uint32(at), Remove: uint32(remove), Insert: insert})
		return bytes*deltaPays < size && bytes < deltaMost
	})
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
	return l.name(next, d)
}

// name adds to a delta with the edits that make next of l what it is from and what it
// makes. It returns nil if the delta does not pay.
func (l *List) name(next *List, d *wirev1.Delta) *wirev1.Delta {
	d.BaseHash, d.ValuesHash, d.PublishersHash = l.hash, orderHash(next.hashes), next.publishersHash
	d.Values, d.Publishers = uint32(len(next.Values)), uint32(len(next.Publishers))
	if bytes, size := proto.Size(d), next.Size(); size < DeltaFrom || bytes*deltaPays >= size || bytes >= deltaMost {
		return nil
	}
	return d
}

// Edit returns the list that the edits of d make, nil if they do not fit, and d with all
// else that belongs to a delta, nil if that does not pay. The cost is that of the edits
// and of copying what they do not change. d has the numbers of values and publishers.
func (l *List) Edit(d *wirev1.Delta) (next *List, delta *wirev1.Delta) {
	next, err := l.edited(d)
	if err != nil {
		return nil, nil
	}
	next.hash = next.contentHash()
	return next, l.name(next, d)
}

// edits calls edit for each range of base that is replaced in next, in order. It
// stops and returns false if edit does, or if the two differ too much.
func edits[T comparable](base, next []T, edit func(at, remove int, insert []T) bool) bool {
	i, j := 0, 0
	for i < len(base) && j < len(next) {
		if base[i] == next[j] {
			i, j = i+1, j+1
			continue
		}
		removed, inserted, found := resume(base[i:], next[j:])
		if !found || !edit(i, removed, next[j:j+inserted]) {
			return false
		}
		i, j = i+removed, j+inserted
	}
	return i == len(base) && j == len(next) || edit(i, len(base)-i, next[j:])
}

// resume returns after how many elements of each the same ones follow. Fewer
// elements in all are preferred.
func resume[T comparable](base, next []T) (removed, inserted int, found bool) {
	for sum := 1; sum <= 2*deltaAhead; sum++ {
		for removed := max(0, sum-deltaAhead); removed <= min(sum, deltaAhead); removed++ {
			inserted := sum - removed
			if removed < len(base) && inserted < len(next) && base[removed] == next[inserted] {
				return removed, inserted, true
			}
		}
	}
	return len(base), len(next), len(base)+len(next) <= 2*deltaAhead
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
	if out.hash = hash; hash == 0 {
		out.hash = out.contentHash()
	}
	if got := orderHash(out.hashes); got != d.GetValuesHash() {
		return nil, fmt.Errorf("the values have the hash %x, not %x", got, d.GetValuesHash())
	}
	if got := out.publishersHash; got != d.GetPublishersHash() {
		return nil, fmt.Errorf("the publishers have the hash %x, not %x", got, d.GetPublishersHash())
	}
	return out, nil
}

// edited returns the list, without its ContentHash, that the edits of a delta make of l.
// The publishers are shared if they do not change.
func (l *List) edited(d *wirev1.Delta) (out *List, err error) {
	values, publishers := int(d.GetValues()), int(d.GetPublishers())
	out = &List{Publishers: l.Publishers, publishersHash: l.publishersHash, text: l.text}
	if out.Values, err = apply(l.Values, d.GetValueEdits(), values); err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	for _, e := range d.GetValueEdits() {
		out.text += textBytes(e.GetInsert()) - textBytes(l.Values[e.GetAt():e.GetAt()+e.GetRemove()])
	}
	if out.hashes, err = apply(l.hashed(), hashEdits(d.GetValueEdits()), values); err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	if len(d.GetPublisherEdits()) > 0 || len(l.Publishers) != publishers {
		if out.Publishers, err = apply(l.Publishers, d.GetPublisherEdits(), publishers); err != nil {
			return nil, fmt.Errorf("publishers: %w", err)
		}
		out.publishersHash = orderHash(out.Publishers)
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

// apply returns base with the edits, which must make count elements of it.
func apply[T any, E interface {
	GetAt() uint32
	GetRemove() uint32
	GetInsert() []T
}](base []T, edits []E, count int) ([]T, error) {
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
