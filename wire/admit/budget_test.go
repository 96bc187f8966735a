package admit_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/wire/admit"
)

// asked is a turn of the model.
type asked struct {
	*admit.Turn
	key   string
	n     int
	has   bool
	tried bool // by Try
}

// model is what a budget gives: the turns in order, each as soon as no earlier one is
// in its way.
type model struct {
	all, each int
	turns     []*asked // in order, of which some have been left
}

func (m *model) used(key string) (all, each int) {
	for _, t := range m.turns {
		if t.has {
			if all += t.n; t.key == key {
				each += t.n
			}
		}
	}
	return all, each
}

func within(used, n, limit int) bool { return limit == 0 || used == 0 || used+n <= limit }

func (m *model) give() {
	full := map[string]bool{}
	for _, t := range m.turns {
		if t.has {
			continue
		}
		all, each := m.used(t.key)
		switch {
		case full[t.key] || !within(each, t.n, m.each):
			full[t.key] = true
		case !within(all, t.n, m.all):
			return
		default:
			t.has = true
		}
	}
}

func (m *model) leave(i int) {
	m.turns = slices.Delete(m.turns, i, i+1)
	m.give()
}

// mayTry reports whether Try takes n: within both limits, and before no other.
func (m *model) mayTry(key string, n int) bool {
	for _, t := range m.turns {
		if !t.has && (m.all > 0 || t.key == key) {
			return false
		}
	}
	all, each := m.used(key)
	return (m.all == 0 || all+n <= m.all) && (m.each == 0 || each+n <= m.each)
}

// A budget gives what the model gives, in every order of calls, and is empty at the end.
func TestBudget_GivesWhatTheModelGives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{all: rapid.SampledFrom([]int{0, 4, 10}).Draw(t, "all"), each: rapid.SampledFrom([]int{0, 1, 5}).Draw(t, "each")}
		b := admit.New(m.all, m.each)
		key := rapid.SampledFrom([]string{"a", "b", "c"})
		end := func(i int) {
			x := m.turns[i]
			if m.leave(i); x.tried {
				b.Release(x.key, x.n)
				return
			}
			x.Leave()
			x.Leave() // gives back no more
		}
		check := func(t *rapid.T) {
			for i, x := range m.turns {
				if !x.tried {
					require.Equal(t, !x.has, x.Waits(), "turn %d of %d", i, len(m.turns))
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": check,
			"join": func(t *rapid.T) {
				x := &asked{key: key.Draw(t, "key"), n: rapid.IntRange(1, 7).Draw(t, "n")}
				x.Turn = b.Join(x.key, x.n)
				m.turns = append(m.turns, x)
				m.give()
			},
			"try": func(t *rapid.T) {
				x := &asked{key: key.Draw(t, "key"), n: rapid.IntRange(1, 7).Draw(t, "n"), has: true, tried: true}
				may := m.mayTry(x.key, x.n)
				require.Equal(t, may, b.Try(x.key, x.n))
				if may {
					m.turns = append(m.turns, x)
				}
			},
			"leave": func(t *rapid.T) {
				if len(m.turns) == 0 {
					t.Skip("none")
				}
				end(rapid.IntRange(0, len(m.turns)-1).Draw(t, "turn"))
			},
		})
		for len(m.turns) > 0 {
			end(0)
			check(t)
		}
		require.True(t, b.Empty())
	})
}

// Wait returns in the order of the calls. A call whose context ends keeps nothing.
func TestBudget_WaitIsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := admit.New(2, 0)
		var mu sync.Mutex // guards order
		var order []int
		for i := range 6 {
			go func() {
				turn, err := b.Wait(t.Context(), fmt.Sprint(i), 1)
				if err != nil {
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(time.Second + time.Duration(i)*time.Millisecond)
				turn.Leave()
			}()
			synctest.Wait()
		}
		ended, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := b.Wait(ended, "late", 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, []int{0, 1, 2, 3, 4, 5}, order)
		assert.True(t, b.Empty())
	})
}

// A turn of a timed budget ends by itself, also if its owner does not see that it has it.
func TestBudget_TimedTurnsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := admit.NewTimed(1, time.Second)
		first, second, gone, last := b.Join("", 1), b.Join("", 1), b.Join("", 1), b.Join("", 1)
		gone.Leave()
		first.Leave()
		first.Leave()
		assert.False(t, second.Waits())
		assert.True(t, last.Waits())
		time.Sleep(time.Second)
		synctest.Wait()
		assert.False(t, last.Waits())
		second.Leave() // it has ended
		assert.True(t, b.Join("", 1).Waits())
		last.Leave()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.True(t, b.Empty())
	})
}

// Without a budget there is nothing to wait for.
func TestBudget_NilHasNoLimit(t *testing.T) {
	var b *admit.Budget
	turn, err := b.Wait(t.Context(), "a", 1)
	require.NoError(t, err)
	assert.False(t, turn.Waits())
	turn.Leave()
}
