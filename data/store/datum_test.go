package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

// Whatever has changed since a large list was read, the content that is made of it is the
// one that is made of all registrations, and so is what its delta makes of the list.
func TestContent_OfChangesIsThatOfAllRegistrations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, now, version := New(time.Minute), time.Now(), int64(0)
		write := func(id int, values []string, withdrawn bool, owner int) {
			version++
			p := publisher(testData[0], fmt.Sprintf("r%02d", id), version, withdrawn)
			p.Values = values
			s.Write(CopyOf(testOwners[owner], p), now)
		}
		for id := range 60 {
			write(2*id, []string{strings.Repeat("v", 30)}, false, 0)
		}
		last := s.data[testData[0]].content()
		edited := 0
		for range 20 {
			for range rapid.IntRange(0, 5).Draw(t, "changes") {
				id, owner := rapid.IntRange(0, 125).Draw(t, "id"), rapid.IntRange(0, 1).Draw(t, "owner")
				values := make([]string, rapid.SampledFrom([]int{1, 1, 1, 0, 3}).Draw(t, "values"))
				for i := range values {
					values[i] = strings.Repeat(fmt.Sprint(version), 10)
				}
				switch rapid.IntRange(0, 3).Draw(t, "change") {
				case 0:
					write(id, nil, true, owner)
				case 1:
					s.Remove(Key{testOwners[owner], testData[0], fmt.Sprintf("r%02d", id)}, version, wirev1.Cause_CAUSE_WITHDRAWN, now)
				default:
					write(id, values, false, owner)
				}
			}
			d := s.data[testData[0]]
			got := d.content()
			var values []string
			var publishers []uint32
			for _, r := range d.regs {
				if v, ok := r.visible(); ok {
					values, publishers = append(values, v...), append(publishers, list.PublisherHash(r.id))
				}
			}
			require.True(t, slices.Equal(values, got.Values))
			require.True(t, slices.Equal(publishers, got.Publishers))
			require.Equal(t, list.ContentHash(values), got.Hash())
			require.Equal(t, list.New(values, publishers, 0).Size(), got.Size())
			if last.to == got {
				edited++
			}
			if last.to == got && last.delta != nil {
				whole, err := last.Apply(last.delta, got.Hash())
				require.NoError(t, err)
				require.True(t, slices.Equal(values, whole.Values) && slices.Equal(publishers, whole.Publishers))
			}
			last = got
		}
		require.Positive(t, edited)
	})
}
