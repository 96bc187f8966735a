package session

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// modelData models a data node that receives a session's writes in all slots:
// copies by id, of which the higher version wins; a removal does not affect a
// newer version.
type modelData map[string]int64

func (d modelData) write(changes []*change) {
	for _, c := range changes {
		switch have, ok := d[c.id]; {
		case c.put != nil:
			d[c.id] = max(have, c.version)
		case ok && have <= c.version:
			delete(d, c.id)
		}
	}
}

// TestRegistry_DataAgreesInTheEnd runs random registrations, writes that are
// acknowledged, lost or answered late, and leader changes. At the end of each
// run, data and session agree, whatever was lost on the way; and a diff repairs
// any copy.
func TestRegistry_DataAgreesInTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRegistry(time.Hour)
		require.True(t, r.resize(4))
		data := modelData{}
		epochs := make([]conclave.Epoch, 4)
		for n := range epochs {
			epochs[n] = conclave.Epoch{Term: 1, Seq: 1}
		}
		conns := []*connection{active(&connection{name: "a"}), active(&connection{name: "b"}), active(&connection{name: "c"})}
		var silent []*connection
		versions := map[string]int64{} // the highest that any client has ever sent
		conn := rapid.SampledFrom(conns)
		name := rapid.SampledFrom([]string{"r0", "r1", "r2", "r3", "r4", "r5"})
		anySlot := rapid.IntRange(0, 3)

		t.Repeat(map[string]func(*rapid.T){
			"register": func(t *rapid.T) {
				id := name.Draw(t, "id")
				v := max(1, versions[id]+rapid.Int64Range(-1, 1).Draw(t, "step"))
				if r.byID[id] == nil {
					v = max(v, versions[id]) // a client's versions never fall; late messages come only while the id is held
				}
				p := conclave.Publisher{ID: id, Data: dataOf(id), Version: v, Withdrawn: rapid.Bool().Draw(t, "withdrawn")}
				old, held := r.byID[id]
				_, err := r.put(conn.Draw(t, "conn"), p)
				switch {
				case held && v < old.pub.Version:
					assert.Equal(t, wire.CodeConflict, wire.CodeOf(err))
				case held && v == old.pub.Version:
					require.NoError(t, err)
					assert.Equal(t, old.pub, r.byID[id].pub, "an equal version changes nothing")
				default:
					require.NoError(t, err)
					assert.Equal(t, v, r.byID[id].pub.Version)
				}
				versions[id] = max(versions[id], v)
			},
			"connectionGone": func(t *rapid.T) {
				c := conn.Draw(t, "conn")
				r.disown(c, wirev1.Cause_CAUSE_CLIENT_GONE)
				assert.Empty(t, r.owned[c])
			},
			"connectionSilent": func(t *rapid.T) { // its client comes back on another one, or does not
				i := rapid.IntRange(0, len(conns)-1).Draw(t, "conn")
				conns[i].fresh.last = time.Now().Add(-time.Hour)
				silent = append(silent, conns[i])
				conns[i] = active(&connection{name: conns[i].name})
			},
			"goodbye": func(t *rapid.T) {
				c := conn.Draw(t, "conn")
				r.withdraw(c)
				for id, reg := range r.owned[c] {
					assert.True(t, reg.pub.Withdrawn)
					versions[id] = max(versions[id], reg.pub.Version)
				}
			},
			"write": func(t *rapid.T) {
				n := anySlot.Draw(t, "slot")
				changes, _ := r.take(n, rapid.IntRange(1, 500).Draw(t, "bytes"))
				outcome := rapid.SampledFrom([]string{"stored", "lost", "answerLost", "overtaken"}).Draw(t, "outcome")
				if outcome == "lost" {
					return
				}
				data.write(changes)
				for _, c := range changes {
					assert.True(t, c.put == nil || r.mayPublish(r.byID[c.id], time.Now()), "its connection is fresh")
				}
				switch outcome {
				case "stored":
					for _, a := range r.settle(n, epochs[n], changes) {
						assert.Equal(t, r.byID[a.id].pub.Version, a.version, "only the present version is acknowledged")
						assert.Same(t, r.byID[a.id].owner, a.to)
					}
				case "overtaken": // a newer epoch was adopted before the answer, which does not count
					epochs[n].Seq++
				}
			},
			"newLeader": func(t *rapid.T) {
				n := anySlot.Draw(t, "slot")
				epochs[n].Seq++
				r.audit(n, epochs[n])
			},
			"diffRepairs": func(t *rapid.T) {
				n := anySlot.Draw(t, "slot")
				theirs := modelData{}
				for i := range 6 {
					if v := rapid.Int64Range(0, 4).Draw(t, "their version"); v > 0 {
						if id := fmt.Sprintf("r%d", i); r.slotFor(id) == n {
							theirs[id] = v
						}
					}
				}
				for round := 0; ; round++ {
					require.Less(t, round, 4, "a diff ends")
					same, err := diffOnce(r, n, epochs[n], theirs)
					if err != nil {
						assert.True(t, slices.ContainsFunc(slices.Collect(maps.Values(r.slots[n].held)), func(reg *registration) bool {
							return !r.mayPublish(reg, time.Now()) && theirs[reg.pub.ID] < reg.pub.Version
						}), "a diff is refused only for registrations that are held back")
						break
					}
					if same {
						break
					}
				}
			},
			"": func(t *rapid.T) {
				live := 0
				for n := range r.slots {
					sum := uint64(0)
					for id, reg := range r.slots[n].held {
						sum += wire.EntryHash(id, reg.pub.Version)
						assert.Same(t, reg, r.byID[id])
						if !reg.pub.Withdrawn {
							live++
						}
					}
					assert.Equal(t, sum, r.slots[n].digest)
				}
				assert.Equal(t, live, r.live)
			},
		})

		// At the end the silent connections expire, and everything queued is
		// written and acknowledged.
		for _, c := range silent {
			r.disown(c, wirev1.Cause_CAUSE_CLIENT_GONE)
		}
		for _, n := range r.waiting() {
			for {
				changes, _ := r.take(n, 1<<20)
				if len(changes) == 0 {
					break
				}
				data.write(changes)
				r.settle(n, epochs[n], changes)
			}
		}
		want := modelData{}
		for id, reg := range r.byID {
			want[id] = reg.pub.Version
			assert.False(t, reg.stored.IsZero(), "everything is stored")
		}
		if !assert.Equal(t, want, data, "data has exactly what the session has") {
			t.Fatal()
		}
	})
}

func dataOf(id string) conclave.DataInfoID {
	d, _ := conclave.NewDataInfoID("data-"+id, "", "")
	return d
}

func (r *registry) slotFor(id string) int {
	n, _ := r.slotOf(dataOf(id).String())
	return n
}

// active returns conn after a message of its client.
func active(conn *connection) *connection {
	conn.fresh.renew(time.Now(), 0)
	return conn
}

// diffOnce makes one diff as a data node does, and reports whether both sides
// agree.
func diffOnce(r *registry, n int, epoch conclave.Epoch, theirs modelData) (same bool, err error) {
	req := &wirev1.DiffRequest{Count: uint64(len(theirs))}
	for id, v := range theirs {
		req.Digest += wire.EntryHash(id, v)
	}
	res, err := r.diff(n, epoch, req)
	if err != nil || res.Same {
		return err == nil, err
	}
	if res.Summarize {
		req.Summarized = true
		for _, id := range sortedKeys(theirs) {
			req.Entries = append(req.Entries, &wirev1.DiffEntry{Id: id, Version: theirs[id]})
		}
		if res, err = r.diff(n, epoch, req); err != nil {
			return false, err
		}
	}
	for _, p := range res.Puts {
		theirs[p.Id] = max(theirs[p.Id], p.Version)
	}
	for _, e := range res.Removed {
		if theirs[e.Id] <= e.Version {
			delete(theirs, e.Id)
		}
	}
	return false, nil
}

func TestDiff_LargeAnswerIsSplit(t *testing.T) {
	r := newRegistry(time.Hour)
	r.resize(1)
	owner := active(&connection{})
	large := make([]byte, 60<<10)
	for i := range large {
		large[i] = 'x'
	}
	for i := range 60 { // 3.5 MiB
		_, err := r.put(owner, conclave.Publisher{ID: fmt.Sprintf("r%02d", i), Data: dataOf("x"), Version: 1, Values: []string{string(large)}})
		require.NoError(t, err)
	}
	theirs := modelData{}
	rounds := 0
	for same := false; !same; rounds++ {
		var err error
		same, err = diffOnce(r, 0, conclave.Epoch{Term: 1, Seq: 1}, theirs)
		require.NoError(t, err)
		require.Less(t, rounds, 10)
	}
	assert.Len(t, theirs, 60)
	assert.Equal(t, 5, rounds)
}

func TestTombstonesAreForgottenOnceStoredAndOld(t *testing.T) {
	r := newRegistry(time.Hour)
	r.resize(1)
	_, err := r.put(active(&connection{}), conclave.Publisher{ID: "a", Data: dataOf("x"), Version: 1, Withdrawn: true})
	require.NoError(t, err)
	later := time.Now().Add(2 * time.Hour)
	r.forgetTombstones(later)
	assert.Len(t, r.byID, 1, "data does not have it yet")
	changes, _ := r.take(0, 1)
	r.settle(0, conclave.Epoch{Term: 1, Seq: 1}, changes)
	r.forgetTombstones(time.Now())
	assert.Len(t, r.byID, 1, "it is too young to be forgotten")
	assert.Equal(t, 1, r.audit(0, conclave.Epoch{Term: 1, Seq: 2}), "it is written again at a new epoch")
	r.forgetTombstones(later)
	assert.Empty(t, r.byID)
	changes, _ = r.take(0, 1)
	assert.Len(t, changes, 1, "even if it is forgotten meanwhile")
}

func TestResize_RedistributesRegistrations(t *testing.T) {
	r := newRegistry(time.Hour)
	r.resize(4)
	owner := active(&connection{})
	for i := range 20 {
		_, err := r.put(owner, conclave.Publisher{ID: fmt.Sprint(i), Data: dataOf(fmt.Sprint(i)), Version: 1})
		require.NoError(t, err)
	}
	assert.True(t, r.resize(16))
	assert.False(t, r.resize(16))
	pending := 0
	for n := range r.slots {
		for id, reg := range r.slots[n].held {
			assert.Equal(t, n, r.slotFor(id))
			assert.Equal(t, n, reg.slot)
		}
		pending += len(r.slots[n].pending)
	}
	assert.Equal(t, 20, pending, "everything is written again")
}

// The earlier connection of a client is dead, but its handler still finds an
// old message in its buffers: what the client owns through its newer connection
// stays.
func TestOwner_EarlierConnectionTakesNothingBack(t *testing.T) {
	r := newRegistry(time.Hour)
	require.True(t, r.resize(1))
	earlier, later := active(&connection{client: "app", number: 1}), active(&connection{client: "app", number: 2})
	p := conclave.Publisher{ID: "a", Data: dataOf("x"), Version: 1}
	show := func(conn *connection) {
		_, err := r.put(conn, p)
		require.NoError(t, err)
	}
	show(earlier)
	show(later)
	show(earlier)
	p.Version = 2
	show(earlier)
	assert.Equal(t, 0, r.disown(earlier, wirev1.Cause_CAUSE_CLIENT_GONE))
	assert.Len(t, r.snapshot(""), 1)

	show(active(&connection{client: "other", number: 1}))
	show(later)
	later.ended.Store(true)
	show(earlier) // it is the one that is still open
	assert.Equal(t, 1, r.disown(earlier, wirev1.Cause_CAUSE_CLIENT_GONE))
}
