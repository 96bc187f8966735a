package wire_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// assemble cuts a list into parts and puts them together again.
func assemble(t require.TestingT, l *wire.List, limit int) *wire.List {
	a, hash := wire.Assembly{}, wire.ContentHash(l.Values)
	for at := (wire.Position{}); ; {
		require.Equal(t, at, a.At())
		values, publishers, part, next := l.Part(at, l.Bytes(), limit)
		if limit > 0 {
			assert.Less(t, (&wire.List{Values: values, Publishers: publishers}).Bytes(), limit+1100)
		}
		whole, err := a.Add(hash, part, values, publishers)
		require.NoError(t, err)
		require.Equal(t, l.Ends(next), whole != nil)
		if whole != nil {
			assert.Zero(t, a, "nothing is held any more")
			return whole
		}
		at = next
	}
}

func TestPart_PartsMakeTheList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &wire.List{
			Values:     rapid.SliceOfN(rapid.StringN(0, 50, 1000), 1, 60).Draw(t, "values"),
			Publishers: rapid.SliceOf(rapid.Uint32()).Draw(t, "publishers"),
		}
		whole := assemble(t, l, rapid.IntRange(1, 4000).Draw(t, "limit"))
		assert.True(t, slices.Equal(l.Values, whole.Values))
		assert.True(t, slices.Equal(l.Publishers, whole.Publishers))
	})
}

func TestAssembly_PartThatDoesNotFitIsRefused(t *testing.T) {
	l := listOf(upTo(40)...)
	hash := wire.ContentHash(l.Values)
	first, firsts, begin, next := l.Part(wire.Position{}, l.Bytes(), 10_000)
	second, seconds, rest, _ := l.Part(next, l.Bytes(), 10_000)
	changed := func(change func(*wirev1.Part)) *wirev1.Part {
		p := proto.CloneOf(rest)
		change(p)
		return p
	}
	for name, add := range map[string]func(*wire.Assembly) error{
		"of another list": func(a *wire.Assembly) error { _, err := a.Add(hash+1, rest, second, seconds); return err },
		"of another size": func(a *wire.Assembly) error {
			_, err := a.Add(hash, changed(func(p *wirev1.Part) { p.Values++ }), second, seconds)
			return err
		},
		"of other publishers": func(a *wire.Assembly) error {
			_, err := a.Add(hash, changed(func(p *wirev1.Part) { p.Publishers++ }), second, seconds)
			return err
		},
		"of other publishers of the same number": func(a *wire.Assembly) error {
			_, err := a.Add(hash, changed(func(p *wirev1.Part) { p.PublishersHash++ }), second, seconds)
			return err
		},
		"missing before": func(a *wire.Assembly) error {
			_, err := a.Add(hash, changed(func(p *wirev1.Part) { p.ValuesAt++ }), second, seconds)
			return err
		},
		"empty":    func(a *wire.Assembly) error { _, err := a.Add(hash, rest, nil, nil); return err },
		"too long": func(a *wire.Assembly) error { _, err := a.Add(hash, rest, l.Values, nil); return err },
		"other content": func(a *wire.Assembly) error {
			_, err := a.Add(hash, rest, make([]string, len(l.Values)-len(first)), l.Publishers)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := &wire.Assembly{}
			_, err := a.Add(hash, begin, first, firsts)
			require.NoError(t, err)
			assert.Error(t, add(a))
			assert.Zero(t, *a, "nothing is held any more")
			_, err = a.Add(hash, rest, second, seconds)
			assert.Error(t, err, "the parts before are missing now")
		})
	}
}

func TestAssembly_PublishersAreCompared(t *testing.T) {
	l := listOf(upTo(40)...)
	values, publishers, part, _ := l.Part(wire.Position{}, l.Bytes(), l.Bytes())
	require.Len(t, publishers, len(l.Publishers))
	a := wire.Assembly{}
	_, err := a.Add(wire.ContentHash(values), part, values, append([]uint32{publishers[0] + 1}, publishers[1:]...))
	assert.ErrorContains(t, err, "its publishers have the hash")
	assert.Zero(t, a)
}

// What a peer sends is held up to a limit, whatever length it announces.
func TestAssembly_IsBounded(t *testing.T) {
	value := strings.Repeat("x", 1<<20)
	for limit, most := range map[int]int{0: wire.MaxList, 3 << 20: 3 << 20} {
		a := wire.Assembly{Limit: limit}
		part := &wirev1.Part{Values: 1 << 30, Bytes: 1}
		added := 0
		for ; ; added++ {
			part.ValuesAt = uint32(added)
			if _, err := a.Add(1, part, []string{value}, nil); err != nil {
				assert.ErrorContains(t, err, "a list of more than")
				break
			}
			require.LessOrEqual(t, added<<20, most)
		}
		assert.Greater(t, (added+2)<<20, most)
		assert.Equal(t, wire.Assembly{Limit: limit}, a)
	}
}

// FuzzAssembly gives an assembly arbitrary pushes. Whatever they contain, a list that
// it returns has the announced size and hash.
func FuzzAssembly(f *testing.F) {
	l := &wire.List{Values: []string{"a", "b", "", "c"}, Publishers: []uint32{1, 2, 3}}
	var pushes []*wirev1.Push
	for at := (wire.Position{}); !l.Ends(at); {
		p := &wirev1.Push{Hash: wire.ContentHash(l.Values), Datum: &wirev1.Datum{}}
		p.Datum.Values, p.Datum.Publishers, p.Part, at = l.Part(at, l.Bytes(), 20)
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
		a := wire.Assembly{}
		for _, p := range m.GetPushes() {
			whole, err := a.Add(p.GetHash(), p.GetPart(), p.GetDatum().GetValues(), p.GetDatum().GetPublishers())
			if err != nil || whole != nil {
				assert.Zero(t, a)
			}
			if whole != nil {
				assert.Equal(t, p.GetHash(), wire.ContentHash(whole.Values))
				assert.Len(t, whole.Values, int(p.GetPart().GetValues()))
				assert.Len(t, whole.Publishers, int(p.GetPart().GetPublishers()))
				assert.Equal(t, p.GetPart().GetPublishersHash(), (&wire.List{Publishers: whole.Publishers}).PublishersHash())
			}
		}
	})
}
