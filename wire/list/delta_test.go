package list_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

func listOf(ids ...int) *list.List {
	var values []string
	var publishers []uint32
	for _, id := range ids {
		values = append(values, fmt.Sprintf("%d:%s", id, strings.Repeat("x", 1000)))
		publishers = append(publishers, uint32(id))
	}
	return list.New(values, publishers, 0)
}

func upTo(n int) (ids []int) {
	for i := range n {
		ids = append(ids, i)
	}
	return ids
}

func TestDelta_OneChangeOfALargeListIsSmall(t *testing.T) {
	base := listOf(upTo(10_000)...)
	for name, next := range map[string]*list.List{
		"update":        list.New(append(append(slices.Clone(base.Values[:5000]), "new"), base.Values[5001:]...), base.Publishers, 0),
		"insert":        listOf(append([]int{-1}, upTo(10_000)...)...),
		"append":        listOf(upTo(10_001)...),
		"remove":        listOf(append(upTo(7000), upTo(10_000)[7001:]...)...),
		"remove at end": listOf(upTo(9999)...),
	} {
		t.Run(name, func(t *testing.T) {
			d := base.DeltaTo(next)
			require.NotNil(t, d)
			assert.Less(t, proto.Size(d), 1100)
			got, err := base.Apply(d, list.ContentHash(next.Values))
			require.NoError(t, err)
			assert.True(t, slices.Equal(next.Values, got.Values))
			assert.True(t, slices.Equal(next.Publishers, got.Publishers))
			assert.Equal(t, next.Hash(), got.Hash())
		})
	}
}

// Where each publisher has one value, the same values of other publishers are not taken
// for each other.
func TestDelta_OfValuesThatRepeatIsSmall(t *testing.T) {
	var values []string
	var publishers []uint32
	for i := range 1000 {
		values, publishers = append(values, "same"), append(publishers, uint32(i))
		if i%10 == 0 {
			values[i] = fmt.Sprint(i)
		}
	}
	base := list.New(values, publishers, 0)
	changed := slices.Clone(values)
	changed[333] = "new"
	d := base.DeltaTo(list.New(changed, publishers, 0))
	require.NotNil(t, d)
	assert.True(t, proto.Equal(&wirev1.ValueEdit{At: 333, Remove: 1, Insert: []string{"new"}}, d.GetValueEdits()[0]))
	assert.Len(t, d.GetValueEdits(), 1)
	assert.Empty(t, d.GetPublisherEdits())
	d = base.DeltaTo(list.New(slices.Delete(changed, 444, 445), slices.Delete(slices.Clone(publishers), 444, 445), 0))
	require.NotNil(t, d)
	assert.Len(t, d.GetValueEdits(), 2)
	assert.Len(t, d.GetPublisherEdits(), 1)
}

func TestDelta_OnlyWhereItPays(t *testing.T) {
	small := list.New(strings.Split(strings.Repeat("v,", 100), ","), nil, 0)
	assert.Nil(t, small.DeltaTo(list.New(append(slices.Clone(small.Values), "w"), nil, 0)), "a small list is sent as it is")
	assert.Nil(t, listOf().DeltaTo(listOf(upTo(100)...)), "nothing in common")
	assert.Nil(t, listOf(upTo(100)...).DeltaTo(listOf(upTo(200)...)), "half of it is new")
	assert.NotNil(t, listOf(upTo(100)...).DeltaTo(listOf(upTo(110)...)))
}

// A receiver with another base never shows a wrong list.
func TestDelta_FitsItsBaseOnly(t *testing.T) {
	base, next := listOf(upTo(100)...), listOf(upTo(101)...)
	d := base.DeltaTo(next)
	for name, other := range map[string]*list.List{
		"none": listOf(), "shorter": listOf(upTo(99)...), "longer": listOf(upTo(101)...), "of other values": list.New(listOf(append(upTo(99), 7)...).Values, base.Publishers, 0),
		"of other publishers": list.New(base.Values, append(slices.Clone(base.Publishers[:99]), 7), 0),
	} {
		_, err := other.Apply(d, 0)
		assert.Error(t, err, name)
	}
	_, err := base.Apply(&wirev1.Delta{Values: 1000}, 0)
	assert.ErrorContains(t, err, "100 elements, not 1000", "before they are allocated")
}

// Whatever the two lists are, a delta between them yields exactly the second.
func TestDelta_YieldsExactlyTheNextList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.IntRange(0, 60) // few, so that elements repeat
		base := rapid.SliceOfN(id, 20, 80).Draw(t, "base")
		next := slices.Clone(base)
		for range rapid.IntRange(0, 6).Draw(t, "changes") {
			at := rapid.IntRange(0, len(next)-1).Draw(t, "at")
			switch rapid.IntRange(0, 2).Draw(t, "change") {
			case 0:
				next[at] = id.Draw(t, "to")
			case 1:
				next = slices.Insert(next, at, id.Draw(t, "new"))
			default:
				next = slices.Delete(next, at, at+1)
			}
		}
		if rapid.IntRange(0, 9).Draw(t, "other") == 0 {
			next = rapid.SliceOfN(id, 20, 80).Draw(t, "next")
		}
		a, b := listOf(base...), listOf(next...)
		d := a.DeltaTo(b)
		made, delta := a.Next(b.Values, b.Publishers)
		if made.Hash() != b.Hash() || !proto.Equal(d, delta) {
			t.Fatalf("%v to %v: made of the changes, it has another hash or delta", base, next)
		}
		if d == nil {
			return
		}
		got, err := a.Apply(d, 0)
		if err != nil || got.Hash() != list.ContentHash(b.Values) || !slices.Equal(b.Values, got.Values) || !slices.Equal(b.Publishers, got.Publishers) {
			t.Fatalf("%v to %v: %v", base, next, err)
		}
		edited, delta, err := a.Edit(d.GetValueEdits(), d.GetPublisherEdits())
		if err != nil || edited.Hash() != b.Hash() || !proto.Equal(d, delta) {
			t.Fatalf("%v to %v: %v, or it has another hash or delta by the edits", base, next, err)
		}
		wrong := proto.CloneOf(d)
		wrong.ValuesHash++
		if _, err := a.Apply(wrong, 0); err == nil {
			t.Fatalf("%v to %v: a list of another hash", base, next)
		}
		for range 2 { // with the hashes that the list before has passed on, or taken back
			if got, err := a.Apply(d, 0); err != nil || got.Hash() != b.Hash() || got.Size() != b.Size() {
				t.Fatalf("%v to %v once more: %v", base, next, err)
			}
		}
		left := slices.Clone(a.Values)
		place := &list.Assembly{Replaced: func(removed, inserted []string) {
			for _, v := range removed {
				i := slices.Index(left, v)
				left = slices.Delete(left, i, i+1)
			}
			left = append(left, inserted...)
		}}
		if _, err := place.Add(&wirev1.Push{Delta: wrong}, a); err == nil {
			t.Fatalf("%v to %v: in its place, a list of another hash", a, next)
		}
		got, err = place.Add(&wirev1.Push{Delta: d, Hash: b.Hash()}, a)
		if err != nil || !slices.Equal(b.Values, got.Values) || got.Hash() != b.Hash() {
			t.Fatalf("%v to %v in its place: %v", a, next, err)
		}
		assert.ElementsMatch(t, b.Values, left, "what was replaced is the difference")
	})
}

// Of two values of a registration only the order of the publishers changes, which hashes no
// value: the next delta is made in the hashes of the list that it begins with.
func TestEdit_LeavesTheHashesOfTheListBefore(t *testing.T) {
	base := listOf(upTo(40)...)
	base = list.New(append(base.Values, "second"), base.Publishers, 0)
	moved := slices.Clone(base.Publishers)
	moved[3], moved[4] = moved[4], moved[3]
	edit := []*wirev1.ValueEdit{{At: 7, Remove: 1, Insert: []string{"changed"}}}
	_, want, err := base.Edit(edit, nil)
	require.NoError(t, err)
	base = list.New(base.Values, base.Publishers, 0)
	next, delta := base.Next(base.Values, moved)
	require.NotNil(t, delta)
	_, _, err = next.Edit([]*wirev1.ValueEdit{{At: 9, Remove: 1, Insert: []string{"another"}}}, nil)
	require.NoError(t, err)
	_, got, err := base.Edit(edit, nil)
	require.NoError(t, err)
	assert.Equal(t, want.GetValuesHash(), got.GetValuesHash())
}

// FuzzApply reads a delta from arbitrary bytes: it is refused, or yields a list with
// the hashes and numbers that it names.
func FuzzApply(f *testing.F) {
	base := listOf(upTo(30)...)
	for _, d := range []*wirev1.Delta{
		base.DeltaTo(listOf(upTo(31)...)), {}, {Values: 1 << 31}, {Values: 30, Publishers: 30, ValueEdits: []*wirev1.ValueEdit{{At: 1 << 31}}},
		{Values: 30, ValueEdits: []*wirev1.ValueEdit{{At: 3, Remove: 1<<32 - 1}}}, {Values: 40, ValueEdits: []*wirev1.ValueEdit{{At: 5, Insert: make([]string, 10)}, {At: 4}}},
	} {
		b, err := proto.Marshal(d)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var d wirev1.Delta
		if proto.Unmarshal(b, &d) != nil {
			return
		}
		got, err := base.Apply(&d, 0)
		values := append([]string{}, base.Values...)
		place, inPlace := (&list.Assembly{Replaced: func(_, _ []string) {}}).Add(&wirev1.Push{Delta: &d, Hash: 1}, list.New(values, base.Publishers, d.GetBaseHash()))
		assert.Equal(t, err == nil, inPlace == nil, inPlace)
		if err != nil {
			assert.Nil(t, got)
			assert.Equal(t, base.Values, values)
			return
		}
		assert.Equal(t, got.Values, place.Values)
		assert.Len(t, got.Values, int(d.GetValues()))
		assert.Len(t, got.Publishers, int(d.GetPublishers()))
	})
}
