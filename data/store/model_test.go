package store

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
	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

// The store is compared with a model, a plain map of copies. Content is a
// function of (id, version), as in real use: equal versions mean equal content.

type modelCopy struct {
	version   int64
	withdrawn bool
}

type model map[Key]modelCopy

func valuesOf(id string, version int64) []string { return []string{fmt.Sprintf("%s=%d", id, version)} }

// visible is the rule in doc.go.
func (m model) visible(data string) (values []string) {
	best := map[string]modelCopy{}
	for k, c := range m {
		if old := best[k.ID]; k.Data == data && (c.version > old.version || c.version == old.version && old.withdrawn) {
			best[k.ID] = c
		}
	}
	ids := slices.Sorted(maps.Keys(best))
	for _, id := range ids {
		if !best[id].withdrawn {
			values = append(values, valuesOf(id, best[id].version)...)
		}
	}
	return values
}

func (m model) hides(key Key, version int64) bool {
	for k, c := range m {
		if k.Data == key.Data && k.ID == key.ID && k.Owner != key.Owner && c.version < version {
			return true
		}
	}
	return false
}

// take removes a copy, and hides older ones.
func (m model) take(key Key) {
	m.hide(key, m[key].version)
	delete(m, key)
}

// hide puts a tombstone of noOwner above what is older than a removed version.
func (m model) hide(key Key, version int64) {
	if tombstone := (Key{noOwner, key.Data, key.ID}); m.hides(key, version) && version > m[tombstone].version {
		m[tombstone] = modelCopy{version, true}
	}
}

func (m model) digest(owner conclave.NodeID) (count, sum uint64) {
	for k, c := range m {
		if k.Owner == owner {
			count++
			sum += list.EntryHash(k.ID, c.version)
		}
	}
	return count, sum
}

var (
	testOwners = []conclave.NodeID{{Name: "session-1", Incarnation: "a"}, {Name: "session-1", Incarnation: "b"}, {Name: "session-2", Incarnation: "c"}}
	testData   = []string{dataID("x"), dataID("y")}
	testIDs    = []string{"r1", "r2", "r3"}
	withdrawn  = wirev1.Cause_CAUSE_WITHDRAWN
	clientGone = wirev1.Cause_CAUSE_CLIENT_GONE
	ownerGone  = wirev1.Cause_CAUSE_OWNER_GONE
)

func dataID(name string) string {
	return conclave.DataInfoID{DataID: name, Instance: conclave.DefaultInstance, Group: conclave.DefaultGroup}.String()
}

func publisher(data, id string, version int64, gone bool) *wirev1.Publisher {
	p := &wirev1.Publisher{Id: id, DataInfoId: data, Version: version, Withdrawn: gone}
	if !gone {
		p.Values = valuesOf(id, version)
	}
	return p
}

// loaded returns a snapshot of these copies as a follower has received it.
func loaded(copies []Copy, now time.Time) *Loading {
	l := NewLoading(time.Second)
	for _, e := range (Snapshot{Position: 1, copies: copies}).Messages(0, conclave.Epoch{}) {
		l.Add(e, now)
	}
	return l
}

// put and remove are what a session's write does.
func (m model) put(key Key, version int64, gone bool) bool {
	if had, ok := m[key]; ok && version <= had.version {
		return false
	}
	m[key] = modelCopy{version, gone}
	return true
}

func (m model) remove(key Key, version int64) bool {
	c, ok := m[key]
	goes := ok && c.version <= version && !(c.withdrawn && m.hides(key, c.version))
	if goes {
		m.take(key)
	}
	if goes || !ok {
		m.hide(key, version)
	}
	return goes
}

// storeMachine drives a leader's store, the model, and a follower's store side
// by side, through hand-overs from one to the other.
type storeMachine struct {
	leader, follower *Store
	read             uint64 // the follower's position
	model, followed  model  // of the leader now, and when the follower had read up to its position
	now              time.Time
	counter          int64
	marked           time.Time // until when the slot is marked, at least
	versions         map[string]int64
	contents         map[string][]string
}

var (
	anyOwner   = rapid.SampledFrom(testOwners)
	anyData    = rapid.SampledFrom(testData)
	anyID      = rapid.SampledFrom(testIDs)
	anyVersion = rapid.Int64Range(1, 9)
	grace      = 15 * time.Second
)

func anyKey(t *rapid.T) Key {
	return Key{anyOwner.Draw(t, "owner"), anyData.Draw(t, "data"), anyID.Draw(t, "id")}
}

// copyAt is a copy of that version; every third version is a tombstone.
func copyAt(key Key, v int64) Copy {
	return CopyOf(key.Owner, publisher(key.Data, key.ID, v, v%3 == 0))
}

// write does the same at a store and in a model.
func (m *storeMachine) write(t *rapid.T, s *Store, of model) Key {
	key, v := anyKey(t), anyVersion.Draw(t, "version")
	if rapid.Bool().Draw(t, "removal") {
		assert.Equal(t, of.remove(key, v), s.Remove(key, v, clientGone, m.now))
	} else {
		assert.Equal(t, of.put(key, v, v%3 == 0), s.Write(copyAt(key, v), m.now))
	}
	return key
}

// follow brings the follower up to the leader, by its log or by a snapshot.
// pending is the follower's takeover, if it is one.
func (m *storeMachine) follow(t *rapid.T, pending *PendingMerge) {
	if m.read == 0 || rapid.IntRange(0, 4).Draw(t, "by snapshot") == 0 {
		l, whole := NewLoading(grace), m.leader.Snapshot(m.leader.Position(), m.now)
		messages := whole.Messages(7, conclave.Epoch{Term: 1, Seq: 2})
		for i, e := range messages {
			assert.Equal(t, i == len(messages)-1, l.Add(e, m.now))
		}
		assert.Equal(t, conclave.Epoch{Term: 1, Seq: 2}, l.Epoch)
		m.follower, m.read = m.follower.Install(pending, l, m.now), l.Position
	}
	for {
		e, ok := m.leader.Changes(m.read)
		require.True(t, ok)
		m.read = e.GetPosition()
		if e.GetBeat() {
			break
		}
		m.follower.Follow(pending, e, m.now)
	}
	m.leader.Trim(m.read)
	m.followed = maps.Clone(m.model)
	assert.GreaterOrEqual(t, m.follower.Counter(), m.leader.Counter())
	if pending == nil {
		assert.Empty(t, m.follower.TakeChanged(), "a follower has no readers")
	}
}

func (m *storeMachine) serve() {
	m.leader.Serve(100, time.Time{}, m.now)
	m.leader.SetFollowed(true)
	m.follower, m.read, m.followed = New(grace), 0, model{}
}

func TestStore_AgreesWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &storeMachine{leader: New(grace), model: model{}, now: time.Now(), versions: map[string]int64{}, contents: map[string][]string{}}
		m.serve()
		m.counter = m.leader.Counter()
		write := func(t *rapid.T) { m.write(t, m.leader, m.model) }
		t.Repeat(map[string]func(*rapid.T){
			"write":       write,
			"write again": write,
			"owner gone": func(t *rapid.T) {
				o := anyOwner.Draw(t, "owner")
				m.leader.RemoveOwner(o, ownerGone, m.now)
				for k, c := range maps.Clone(m.model) {
					if k.Owner == o && !(c.withdrawn && m.model.hides(k, c.version)) {
						m.model.take(k)
					}
				}
			},
			"compact": func(t *rapid.T) {
				m.now = m.now.Add(time.Minute)
				m.leader.Compact(m.now.Add(-grace), m.now)
				for again := true; again; {
					again = false
					for k, c := range m.model {
						if c.withdrawn && !m.model.hides(k, c.version) {
							delete(m.model, k)
							again = true
						}
					}
				}
				// A pass of Compact may leave a tombstone that hid only a
				// tombstone which was deleted in the same pass. An id can have
				// one for each owner, and one of noOwner.
				for range testOwners {
					m.leader.Compact(m.now.Add(-grace), m.now)
				}
				m.follower.Prune(m.now)
			},
			// A session answers a diff; what it writes before the answer
			// arrives is newer.
			"merge": func(t *rapid.T) {
				owner, pending := anyOwner.Draw(t, "owner"), m.leader.Begin()
				held, written := m.leader.Of(owner), map[Key]bool{}
				puts := map[Key]int64{}
				for range rapid.IntRange(0, 3).Draw(t, "puts") {
					puts[Key{owner, anyData.Draw(t, "data"), anyID.Draw(t, "id")}] = anyVersion.Draw(t, "version")
				}
				for range rapid.IntRange(0, 2).Draw(t, "writes meanwhile") {
					written[m.write(t, m.leader, m.model)] = true
				}
				var offered []*wirev1.Publisher
				var removed []Copy
				for key, v := range puts {
					offered = append(offered, publisher(key.Data, key.ID, v, v%3 == 0))
					if !written[key] {
						m.model.put(key, v, v%3 == 0)
					}
				}
				for _, c := range held {
					if _, has := puts[c.Key]; has {
						continue
					}
					removed = append(removed, c)
					if !written[c.Key] {
						m.model.remove(c.Key, c.Version)
					}
				}
				m.leader.Merge(pending, owner, offered, removed, m.now)
				m.leader.End(pending)
			},
			"follow": func(t *rapid.T) {
				m.follow(t, nil)
				assert.Equal(t, m.leader.All(), m.follower.All(), "snapshot and feed make the same copy")
				sum, n := m.leader.Checksum()
				theirs, m2 := m.follower.Checksum()
				assert.Equal(t, [2]uint64{sum, uint64(n)}, [2]uint64{theirs, uint64(m2)})
			},
			// Sessions write to the successor while it reads the rest of the
			// feed: what they wrote to it is newer than what the feed brings.
			"hand over": func(t *rapid.T) {
				pending, written := m.follower.Begin(), map[Key]bool{}
				for range rapid.IntRange(0, 3).Draw(t, "writes to the successor") {
					written[m.write(t, m.follower, m.followed)] = true
				}
				before := m.followed
				m.follow(t, pending)
				m.follower.End(pending)
				assert.False(t, m.follower.Pending())
				marks := m.leader.MarksAt(m.now)
				m.leader = m.follower
				m.leader.inherit(marks, m.now)
				got := m.held()
				for _, owner := range testOwners {
					for _, data := range testData {
						for _, id := range testIDs {
							key := Key{owner, data, id}
							want := m.model[key]
							if written[key] {
								want = before[key]
							}
							assert.Equal(t, want, got[key], "%v, written: %v", key, written[key])
						}
					}
				}
				m.model = got // with the tombstones that hide what was removed
				m.serve()
			},
			"mark": func(t *rapid.T) {
				until := m.now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "seconds")) * time.Second)
				m.leader.MarkIncomplete(until)
				if until.After(m.marked) {
					m.marked = until
				}
			},
			"": m.check,
		})
	})
}

// held is the leader's content as a model has it.
func (m *storeMachine) held() model {
	got := model{}
	for _, c := range m.leader.All() {
		got[c.Key] = modelCopy{c.Version, c.Withdrawn}
	}
	return got
}

func (m *storeMachine) check(t *rapid.T) {
	assert.Equal(t, m.model, m.held())
	assert.GreaterOrEqual(t, m.leader.Incomplete(m.now), max(0, m.marked.Sub(m.now)), "a mark lasts, also from one leader to the next")
	assert.GreaterOrEqual(t, m.leader.Marked(m.now), m.leader.Incomplete(m.now))
	visible := 0
	changed := m.leader.TakeChanged()
	for _, data := range testData {
		want := m.model.visible(data)
		f := m.leader.Read(data, 0, 0, m.now)
		assert.True(t, slices.Equal(want, f.GetDatum().GetValues()), "%q, not %q", f.GetDatum().GetValues(), want)
		assert.Equal(t, list.ContentHash(want), f.GetHash())
		assert.True(t, m.leader.Read(data, 0, f.GetHash(), m.now).GetSame())
		visible += len(want)
		d, found := m.leader.Datum(data, m.now)
		if assert.Equal(t, len(want) > 0, found); found {
			assert.Equal(t, f.GetUnconfirmedMs(), wire.Ms(d.Unconfirmed), "operators are shown the same mark as sessions")
		}
		v := f.GetDatum().GetVersion()
		assert.GreaterOrEqual(t, v, m.versions[data], "versions only rise")
		if !slices.Equal(want, m.contents[data]) {
			assert.Greater(t, v, m.versions[data], "another content has another version")
			assert.True(t, slices.Contains(changed, data) || m.read == 0, "a new leader's readers read everything")
		}
		m.versions[data], m.contents[data] = v, want
	}
	assert.Equal(t, visible, m.leader.Visible())
	assert.GreaterOrEqual(t, m.leader.Counter(), m.counter)
	m.counter = m.leader.Counter()
	for _, o := range testOwners {
		wantCount, wantSum := m.model.digest(o)
		count, sum := m.leader.Digest(o)
		assert.Equal(t, [2]uint64{wantCount, wantSum}, [2]uint64{count, sum})
		assert.Len(t, m.leader.Of(o), int(count))
	}
}
