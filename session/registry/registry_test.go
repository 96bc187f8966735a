package registry

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave"
	"conclave/slot"
	"conclave/wire"
	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

func TestRegistry_AgreesWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine()
		anySlot := rapid.IntRange(0, testSlots-1)
		t.Repeat(map[string]func(*rapid.T){
			"put":       m.put,
			"put again": m.put,
			"message": func(t *rapid.T) {
				o := m.conn(t)
				const lease = testGrace / 3
				counts := m.now.Sub(m.heard[o]) <= lease
				assert.Equal(t, counts, o.Renew(m.now, lease))
				if counts {
					m.heard[o] = m.now
				}
			},
			"time": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.SampledFrom([]int{1, 20, 3000, 8000, 11_000}).Draw(t, "ms")) * time.Millisecond)
			},
			"client gone": func(t *rapid.T) {
				i := rapid.IntRange(0, len(m.conns)-1).Draw(t, "conn")
				m.leave(m.conns[i])
				m.conns[i] = m.connect(m.conns[i].Client)
			},
			"goodbye": func(t *rapid.T) {
				o, withdrawn := m.conn(t), 0
				for id, reg := range m.regs {
					if reg.owner == o && !reg.withdrawn {
						m.regs[id] = modelReg{version: reg.version + 1, withdrawn: true, owner: o}
						m.versions[id] = max(m.versions[id], reg.version+1)
						withdrawn++
					}
				}
				assert.Equal(t, withdrawn, withdraw(m.r, o))
			},
			"forget": func(t *rapid.T) {
				m.r.ForgetTombstones(m.now)
				for id, reg := range m.regs {
					if _, is := m.r.byID[id]; !is {
						assert.True(t, reg.withdrawn && !reg.stored.IsZero(), "only tombstones that are stored are forgotten")
						assert.Greater(t, m.now.Sub(reg.stored), testGrace, "and not before they were for the session grace")
						m.forgot[id] = reg.version
						delete(m.regs, id)
					}
				}
			},
			"write":         m.write,
			"write again":   m.write,
			"write further": m.write,
			"compare":       m.compare,
			"elect":         func(t *rapid.T) { m.elect(anySlot.Draw(t, "slot")) },
			"audit":         func(t *rapid.T) { m.r.Audit(m.now) },
			"subscribe": func(t *rapid.T) {
				o, id := m.conn(t), rapid.SampledFrom([]string{"s0", "s1"}).Draw(t, "subscription")
				s := &modelSub{key: keyOf(rapid.SampledFrom(testIDs[:3]).Draw(t, "datum"))}
				if rapid.Bool().Draw(t, "from another session") {
					s.version, s.hash = rapid.Int64Range(1, 20).Draw(t, "version"), 7
				}
				m.subs[o][id] = s
				pushes, err := m.r.Subscribe(o, &wirev1.Subscription{Id: id, DataInfoId: s.key, Version: s.version, Hash: s.hash, Count: 1}, m.now)
				require.NoError(t, err)
				m.pushed(t, pushes)
			},
			"unsubscribe": func(t *rapid.T) {
				o, id := m.conn(t), rapid.SampledFrom([]string{"s0", "s1"}).Draw(t, "subscription")
				m.r.Unsubscribe(o, id)
				delete(m.subs[o], id)
			},
			"change":  func(t *rapid.T) { m.change(t, keyOf(rapid.SampledFrom(testIDs).Draw(t, "datum"))) },
			"receive": func(t *rapid.T) { m.receive(t, anySlot.Draw(t, "slot")) },
			"overtake": func(t *rapid.T) {
				for range 2 {
					m.r.Changed(sortedKeys(m.r.topics))
					m.now = m.now.Add(time.Second)
					for n := range testSlots {
						m.read(t, n, "overtaken by the feed")
					}
				}
			},
			"read": func(t *rapid.T) {
				m.read(t, anySlot.Draw(t, "slot"), rapid.SampledFrom([]string{"", "", "lost", "cut short", "overtaken", "overtaken by the feed"}).Draw(t, "outcome"))
			},
			"switches": func(t *rapid.T) {
				m.r.Configure(10*time.Millisecond, rapid.IntRange(0, 3).Draw(t, "stop-push") == 0, rapid.IntRange(0, 3).Draw(t, "push-guard") > 0, m.now)
			},
			"": m.check,
		})
		m.end(t)
	})
}

// check compares what the registry holds with the model.
func (m *machine) check(t *rapid.T) {
	got := map[string]modelReg{}
	for id, reg := range m.r.byID {
		assert.Equal(t, slotOf(id), reg.slot.number)
		got[id] = modelReg{reg.version, reg.withdrawn, reg.owner, m.regs[id].stored}
		assert.Equal(t, m.regs[id].stored.IsZero(), reg.stored.IsZero())
	}
	if !assert.Equal(t, m.regs, got) {
		t.FailNow()
	}
	live := map[*Owner]int{}
	for _, reg := range m.regs {
		if !reg.withdrawn {
			live[reg.owner]++
		}
	}
	all := 0
	for _, o := range m.conns {
		assert.Equal(t, live[o], m.r.LiveOf(o))
		all += live[o]
	}
	assert.Equal(t, all, m.r.Live())
	consistent(t, m.r)
	m.missed(t)
	m.rises(t)
	subs := 0
	for _, of := range m.subs {
		subs += len(of)
	}
	assert.Equal(t, subs, m.r.Figures().Subscriptions)
	for n, epoch := range m.epochs {
		assert.False(t, epoch.Less(m.r.slots[n].epoch), "no epoch is adopted that was not granted")
	}
}

// end lets everything be written and read: data has exactly what the session
// has, and each subscriber has the newest list.
func (m *machine) end(t *rapid.T) {
	m.r.Configure(10*time.Millisecond, false, true, m.now)
	for n, epoch := range m.epochs {
		m.r.Adopt(n, epoch, address(epoch), m.now)
		m.r.Refresh(n, m.now)
	}
	for id := range m.regs {
		if m.heldBack(id) {
			m.leave(m.regs[id].owner)
		}
	}
	for _, n := range m.r.Unwritten() {
		for b := takeAny(m.r, n, address(m.epochs[n]), 1<<20, 100, m.now); b.Len() > 0; b = takeAny(m.r, n, address(m.epochs[n]), 1<<20, 100, m.now) {
			m.data.write(b.Message())
			acks, _ := m.r.Settle(b, m.now)
			m.settled(t, b.Message(), acks)
		}
	}
	assert.Empty(t, m.r.Unwritten())
	want := modelData{}
	for id, reg := range m.regs {
		want[id] = reg.version
		assert.False(t, reg.stored.IsZero(), "everything is stored")
	}
	for id := range maps.Clone(m.data) { // forgotten tombstones stay at data until it compacts them
		if _, held := want[id]; !held && m.forgot[id] != 0 && m.forgot[id] == m.data[id] {
			delete(m.data, id)
		}
	}
	assert.Equal(t, want, m.data, "data has exactly what the session has")

	for round := 0; len(m.r.Unread()) > 0; round++ {
		require.Less(t, round, 200, "reading ends")
		m.now = m.now.Add(time.Second)
		for _, n := range m.r.Unread() {
			m.read(t, n, "")
		}
	}
	for o, subs := range m.subs {
		for id, s := range subs {
			d := m.datums[s.key]
			assert.Equal(t, list.ContentHash(d.values), s.hash, "%s of connection %d has the newest list", id, o.Number)
		}
	}
	assert.Zero(t, m.r.Figures().Held)
}

// consistent checks what a registry derives from its registrations and
// subscriptions.
func consistent(t assert.TestingT, r *Registry) {
	live, held, topics := 0, 0, 0
	owned, unstored, guarded := map[*Owner]int{}, map[*Owner]int{}, 0
	for n, s := range r.slots {
		sum := uint64(0)
		for i, reg := range s.held.regs {
			assert.Equal(t, int32(i), reg.at[ofSlot])
			sum += list.EntryHash(reg.id, reg.version)
			assert.Same(t, reg, r.byID[reg.id])
			assert.Same(t, s, reg.slot)
			if reg.owner != nil {
				assert.Same(t, reg, reg.owner.regs.regs[reg.at[ofOwner]])
				owned[reg.owner]++
				if reg.stored.IsZero() {
					unstored[reg.owner]++
				}
			}
			if !reg.withdrawn {
				assert.NotNil(t, reg.owner)
				live++
			}
			held++
		}
		assert.Equal(t, sum, s.digest)
		assert.Equal(t, n, s.number)
		queued := map[string]bool{}
		unsent := 0
		for class, lane := range s.lanes {
			for _, c := range lane {
				if !c.settled {
					assert.Same(t, c, s.pending[c.reg.id])
					assert.EqualValues(t, class, c.class)
					assert.False(t, queued[c.reg.id], "one change of each id is queued")
					queued[c.reg.id] = true
					unsent += c.size()
				}
			}
		}
		assert.Equal(t, unsent, s.unsent)
		assert.Len(t, s.pending, len(queued))
		for key, tp := range s.topics {
			assert.Same(t, tp, r.topics[key])
			assert.NotEmpty(t, tp.subs)
			for i, sub := range tp.subs {
				assert.Equal(t, i, sub.at)
				assert.Same(t, sub, sub.to.subs[sub.id])
				assert.GreaterOrEqual(t, s.pushed, sub.version)
			}
			topics++
		}
	}
	assert.Equal(t, live, r.live)
	assert.Len(t, r.byID, held)
	assert.Len(t, r.topics, topics)
	for o, n := range owned {
		assert.Len(t, o.regs.regs, n)
		assert.Equal(t, unstored[o], o.unstored)
	}
	for _, tp := range r.topics {
		for _, s := range tp.subs {
			if !s.held.IsZero() {
				guarded++
			}
		}
	}
	assert.Equal(t, guarded, r.Figures().Held)
}

func TestResize_RedistributesRegistrationsAndTopics(t *testing.T) {
	r, now := New(time.Hour, 0, nil), time.Now()
	owner := active(&Owner{}, now)
	_, err := put(r, owner, conclave.Publisher{ID: "early", Data: dataOf("early"), Version: 1}, now)
	assert.Equal(t, wire.CodeUnavailable, wire.CodeOf(err), "there is no table yet")
	_, err = r.Subscribe(owner, &wirev1.Subscription{Id: "early", DataInfoId: keyOf("early")}, now)
	assert.Equal(t, wire.CodeUnavailable, wire.CodeOf(err))

	r.Resize(4, now)
	for i := range 20 {
		_, err := put(r, owner, conclave.Publisher{ID: fmt.Sprint(i), Data: dataOf(fmt.Sprint(i)), Version: 1}, now)
		require.NoError(t, err)
		_, err = r.Subscribe(owner, &wirev1.Subscription{Id: fmt.Sprint(i), DataInfoId: keyOf(fmt.Sprint(i)), Version: 5}, now)
		require.NoError(t, err)
	}
	for _, n := range []int{16, 3} {
		r.Resize(n, now)
		consistent(t, r)
		pending, due := 0, 0
		for _, s := range r.slots {
			for _, reg := range s.held.regs {
				assert.Equal(t, s.number, slot.Of(keyOf(reg.id), n))
			}
			pending, due = pending+len(s.pending), due+len(s.due)
		}
		assert.Equal(t, 20, pending, "everything is written again")
		assert.Equal(t, 20, due, "everything is read again")
	}
}

// active returns an owner after a message of its client.
func active(o *Owner, now time.Time) *Owner {
	o.Renew(now, 0)
	return o
}
