package list_test

import (
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

// part returns the part of a list that begins at a position, as it is pushed.
func part(l *list.List, from list.Position, limit int) (p *wirev1.Push, next list.Position, last bool) {
	p = &wirev1.Push{Hash: l.Hash(), Datum: &wirev1.Datum{}}
	p.Part, next, last = l.Part(p.Datum, from, limit)
	return p, next, last
}

func TestPart_PartsMakeTheList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := list.New(
			rapid.SliceOfN(rapid.StringN(0, 50, 1000), 1, 60).Draw(t, "values"),
			rapid.SliceOf(rapid.Uint32()).Draw(t, "publishers"), 0)
		limit := rapid.IntRange(1, 4000).Draw(t, "limit")
		a, at := list.Assembly{}, list.Position{}
		for {
			p, next, last := part(l, at, limit)
			assert.Less(t, list.New(p.Datum.Values, p.Datum.Publishers, 0).Bytes(), limit+1100)
			whole, err := a.Add(p, nil)
			require.NoError(t, err)
			require.Equal(t, last, whole != nil)
			if last {
				assert.Zero(t, a, "nothing is held any more")
				assert.True(t, slices.Equal(l.Values, whole.Values))
				assert.True(t, slices.Equal(l.Publishers, whole.Publishers))
				assert.Equal(t, l.Hash(), whole.Hash())
				return
			}
			want := &wirev1.Want{}
			a.Continue(want)
			require.True(t, l.Wanted(want))
			at = list.Position{Values: int(want.GetValuesAt()), Publishers: int(want.GetPublishersAt())}
			require.Equal(t, next, at)
		}
	})
}

// A list comes as a whole, as changes of the one before, and in parts.
func TestAssembly_EachFormMakesTheList(t *testing.T) {
	first, second := listOf(upTo(40)...), listOf(upTo(41)...)
	var a list.Assembly
	whole, err := a.Add(&wirev1.Push{Datum: &wirev1.Datum{Values: first.Values, Publishers: first.Publishers}}, nil)
	require.NoError(t, err)
	assert.Equal(t, first.Hash(), whole.Hash(), "it is computed if the message does not name it")
	changes := &wirev1.Push{Hash: second.Hash(), Delta: first.DeltaTo(second)}
	next, err := a.Add(changes, whole)
	require.NoError(t, err)
	assert.Equal(t, second.Values, next.Values)
	assert.Equal(t, second.Publishers, next.Publishers)
	for _, base := range []*list.List{nil, second} {
		_, err = a.Add(changes, base)
		assert.ErrorContains(t, err, "which is not here")
	}
	p, _, last := part(first, list.Position{}, 10<<20)
	require.True(t, last)
	whole, err = a.Add(p, second)
	require.NoError(t, err)
	assert.Equal(t, first.Values, whole.Values)
}

// A message that is not a part ends what came before it.
func TestAssembly_PartsThatAreOvertakenAreDropped(t *testing.T) {
	l := listOf(upTo(40)...)
	first, next, _ := part(l, list.Position{}, 10_000)
	second, _, _ := part(l, next, 10_000)
	var a list.Assembly
	_, err := a.Add(first, nil)
	require.NoError(t, err)
	_, err = a.Add(&wirev1.Push{}, nil)
	require.NoError(t, err)
	assert.Zero(t, a)
	_, err = a.Add(second, nil)
	assert.ErrorContains(t, err, "without the parts before")
}

func TestAssembly_PartThatDoesNotFitIsRefused(t *testing.T) {
	l := listOf(upTo(40)...)
	first, next, _ := part(l, list.Position{}, 10_000)
	second, _, _ := part(l, next, 10_000)
	for name, change := range map[string]func(*wirev1.Push){
		"of another list":                        func(p *wirev1.Push) { p.Hash++ },
		"of another size":                        func(p *wirev1.Push) { p.Part.Values++ },
		"of other publishers":                    func(p *wirev1.Push) { p.Part.Publishers++ },
		"of other publishers of the same number": func(p *wirev1.Push) { p.Part.PublishersHash++ },
		"missing before":                         func(p *wirev1.Push) { p.Part.ValuesAt++ },
		"empty":                                  func(p *wirev1.Push) { p.Datum = nil },
		"with changes":                           func(p *wirev1.Push) { p.Delta = &wirev1.Delta{ValueEdits: []*wirev1.ValueEdit{{At: 1000, Remove: 1}}} },
		"too long":                               func(p *wirev1.Push) { p.Datum.Values = l.Values },
		"other content": func(p *wirev1.Push) {
			p.Datum.Values, p.Datum.Publishers = make([]string, len(l.Values)-len(first.Datum.Values)), l.Publishers
		},
		"other publishers": func(p *wirev1.Push) {
			p.Datum.Values, p.Datum.Publishers = l.Values[next.Values:], append([]uint32{l.Publishers[0] + 1}, l.Publishers[1:]...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := &list.Assembly{Limit: 1 << 20}
			_, err := a.Add(first, nil)
			require.NoError(t, err)
			changed := proto.CloneOf(second)
			change(changed)
			_, err = a.Add(changed, nil)
			require.Error(t, err)
			whole, err := a.Add(second, nil)
			assert.NoError(t, err, "the parts that follow are ignored")
			assert.Nil(t, whole)
			want := &wirev1.Want{}
			a.Continue(want)
			assert.True(t, proto.Equal(&wirev1.Want{}, want), "nothing is held")
			_, err = a.Add(first, nil)
			assert.NoError(t, err, "the list begins again")
			a.Continue(want)
			assert.True(t, l.Wanted(want))
		})
	}
}

// What a peer sends is held up to a limit, whatever length it announces.
func TestAssembly_IsBounded(t *testing.T) {
	value := strings.Repeat("x", 1<<20)
	for limit, most := range map[int]int{0: list.MaxBytes, 3 << 20: 3 << 20} {
		a := list.Assembly{Limit: limit}
		p := &wirev1.Push{Hash: 1, Datum: &wirev1.Datum{Values: []string{value}}, Part: &wirev1.Part{Values: 1 << 30, Bytes: 1}}
		added := 0
		for ; ; added++ {
			p.Part.ValuesAt = uint32(added)
			if _, err := a.Add(p, nil); err != nil {
				var large *list.TooLarge
				require.ErrorAs(t, err, &large)
				assert.Greater(t, large.Bytes, uint64(most))
				break
			}
			require.LessOrEqual(t, added<<20, most)
		}
		assert.Greater(t, (added+2)<<20, most)
	}
}

// What is larger than the limit is not taken, however it comes.
func TestAssembly_ListAboveTheLimitIsTooLarge(t *testing.T) {
	base, l := listOf(upTo(40)...), listOf(upTo(41)...)
	a := list.Assembly{Limit: l.Bytes() - 1}
	first, next, _ := part(l, list.Position{}, 10_000)
	second, _, _ := part(l, next, 10_000)
	for name, p := range map[string]*wirev1.Push{
		"whole": {Datum: &wirev1.Datum{Values: l.Values, Publishers: l.Publishers}}, "delta": {Hash: l.Hash(), Delta: base.DeltaTo(l)}, "part": first,
	} {
		whole, err := a.Add(p, base)
		assert.Equal(t, &list.TooLarge{Bytes: uint64(l.Bytes())}, err, name)
		assert.Nil(t, whole, name)
		whole, err = a.Add(second, base)
		assert.NoError(t, err, "its other parts are ignored")
		assert.Nil(t, whole)
	}
}

// FuzzAssembly gives an assembly arbitrary pushes. Whatever they contain, a list that
// it makes of parts has the announced size and hash.
func FuzzAssembly(f *testing.F) {
	l := list.New([]string{"a", "b", "", "c"}, []uint32{1, 2, 3}, 0)
	var pushes []*wirev1.Push
	for at, last := (list.Position{}), false; !last; {
		var p *wirev1.Push
		p, at, last = part(l, at, 20)
		pushes = append(pushes, p)
	}
	seed, err := proto.Marshal(&wirev1.ServerMessage{Pushes: pushes})
	require.NoError(f, err)
	f.Add(seed)
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &wirev1.ServerMessage{}
		if proto.Unmarshal(b, m) != nil {
			return
		}
		a := list.Assembly{}
		var base *list.List
		for _, p := range m.GetPushes() {
			whole, err := a.Add(p, base)
			if whole == nil {
				continue
			}
			assert.NoError(t, err)
			assert.Zero(t, a)
			if base = whole; p.GetPart() != nil {
				assert.Equal(t, p.GetHash(), list.New(whole.Values, whole.Publishers, 0).Hash())
				assert.Len(t, whole.Values, int(p.GetPart().GetValues()))
				assert.Len(t, whole.Publishers, int(p.GetPart().GetPublishers()))
				again, _, _ := list.New(nil, whole.Publishers, 0).Part(&wirev1.Datum{}, list.Position{}, 1)
				assert.Equal(t, p.GetPart().GetPublishersHash(), again.GetPublishersHash())
			}
		}
	})
}
