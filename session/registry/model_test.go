package registry

import (
	"slices"
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

// The registry is compared with a model: maps of what clients have sent, of what
// data holds, and of what the slots' leaders would answer.

const (
	testGrace = 15 * time.Second
	testSlots = 2
)

var testIDs = []string{"r0", "r1", "r2", "r3"}

func dataOf(id string) conclave.DataInfoID {
	d, _ := conclave.NewDataInfoID("data-"+id, "", "")
	return d
}

// put is Registry.Put of a message that was checked.
func put(r *Registry, sender *Owner, p conclave.Publisher, now time.Time) (stored bool, err error) {
	return r.Put(sender, message(p), now)
}

func message(p conclave.Publisher) *wirev1.Publisher {
	return &wirev1.Publisher{Id: p.ID, DataInfoId: p.Data.String(), Version: p.Version, Values: p.Values, Withdrawn: p.Withdrawn}
}

func keyOf(id string) string { return dataOf(id).String() }

func slotOf(id string) int { return slot.Of(keyOf(id), testSlots) }

func address(epoch conclave.Epoch) string { return "data-" + epoch.String() }

// modelReg is what the session must hold under one id.
type modelReg struct {
	version   int64
	withdrawn bool
	owner     *Owner    // nil: none
	stored    time.Time // zero: not yet
}

// modelData is the copies of one session at the data nodes: the higher version
// wins, and a removal does not affect a newer version.
type modelData map[string]int64

func (d modelData) write(b *wirev1.SlotBatch) {
	for _, p := range b.GetPuts() {
		d[p.GetId()] = max(d[p.GetId()], p.GetVersion())
	}
	for _, r := range b.GetRemovals() {
		if have, ok := d[r.GetId()]; ok && have <= r.GetVersion() {
			delete(d, r.GetId())
		}
	}
}

// diff makes one diff as a data node does, and reports whether both sides agree.
func (d modelData) diff(r *Registry, n int, epoch conclave.Epoch, now time.Time) (same bool, err error) {
	req := &wirev1.DiffRequest{Slot: uint32(n), LeaderEpoch: wire.EpochOut(epoch), AskerAddress: address(epoch), Count: uint64(len(d))}
	for id, v := range d {
		req.Digest += list.EntryHash(id, v)
	}
	res, _, err := r.Diff(req, false, now)
	if err != nil || res.Same {
		return err == nil, err
	}
	if res.Summarize {
		req.Summarized = true
		for _, id := range sortedKeys(d) {
			req.Entries = append(req.Entries, &wirev1.DiffEntry{Id: id, Version: d[id]})
		}
		if res, _, err = r.Diff(req, false, now); err != nil {
			return false, err
		}
	}
	for _, e := range res.Removed {
		if d[e.Id] <= e.Version {
			delete(d, e.Id)
		}
	}
	d.write(&wirev1.SlotBatch{Puts: res.Puts})
	return false, nil
}

// modelDatum is what a slot's leader answers for one key. contents has every
// version that it ever had.
type modelDatum struct {
	version  int64
	values   []string
	contents map[int64][]string
	below    int64     // removals below this version are unconfirmed
	until    time.Time // until then
}

// change gives the datum a version above the given one.
func (d *modelDatum) change(above int64, values []string) {
	d.version, d.values = max(d.version, above)+1, values
	d.contents[d.version] = values
}

func (d *modelDatum) read(w *wirev1.Want, now time.Time) *wirev1.Fetched {
	if w.GetVersion() >= d.version {
		d.change(w.GetVersion(), d.values)
	}
	out := &wirev1.Fetched{Datum: &wirev1.Datum{DataInfoId: w.GetDataInfoId(), Version: d.version}, Hash: list.ContentHash(d.values)}
	if out.Same = w.GetHash() == out.Hash; !out.Same {
		out.Datum.Values = d.values
	}
	if left := d.until.Sub(now); left > 0 {
		out.UnconfirmedMs, out.UnexplainedVersion = wire.Ms(left), d.below
	}
	return out
}

// modelSub is what one subscriber has.
type modelSub struct {
	key     string
	version int64
	hash    uint64
}

type machine struct {
	r      *Registry
	now    time.Time
	epochs []conclave.Epoch
	conns  []*Owner
	heard  map[*Owner]time.Time // the last message of each
	number uint64

	regs     map[string]modelReg
	versions map[string]int64 // the highest that any client has ever sent
	data     modelData
	forgot   map[string]int64 // the tombstones that were forgotten, with their versions
	datums   map[string]*modelDatum
	subs     map[*Owner]map[string]*modelSub
	feeds    [testSlots][]carried // what the leaders' feeds carry and the session has not received
	held     map[*topic]heldAt
}

// heldAt is what a topic has held last.
type heldAt struct {
	epoch   conclave.Epoch
	version int64
}

// carried is content that a feed carries.
type carried struct {
	epoch  conclave.Epoch
	answer *wirev1.Fetched
}

func newMachine() *machine {
	m := &machine{
		r: New(testGrace, 10*time.Millisecond, nil), now: time.Unix(1_000_000, 0), heard: map[*Owner]time.Time{},
		regs: map[string]modelReg{}, versions: map[string]int64{}, data: modelData{}, forgot: map[string]int64{}, datums: map[string]*modelDatum{}, subs: map[*Owner]map[string]*modelSub{}, held: map[*topic]heldAt{},
	}
	m.r.Resize(testSlots, m.now)
	for n := range testSlots {
		m.epochs = append(m.epochs, conclave.Epoch{})
		m.elect(n)
	}
	for _, client := range []string{"a", "a", "b"} {
		m.conns = append(m.conns, m.connect(client))
	}
	for _, id := range testIDs {
		m.datums[keyOf(id)] = &modelDatum{contents: map[int64][]string{}}
		m.datums[keyOf(id)].change(0, nil)
	}
	return m
}

func (m *machine) connect(client string) *Owner {
	m.number++
	o := &Owner{Client: client, Number: m.number}
	o.Renew(m.now, time.Hour)
	m.heard[o], m.subs[o] = m.now, map[string]*modelSub{}
	return o
}

// elect gives a slot another leader, which the session learns from a table.
func (m *machine) elect(n int) {
	m.epochs[n].Term, m.epochs[n].Seq = 1, m.epochs[n].Seq+1
	m.r.Adopt(n, m.epochs[n], address(m.epochs[n]), m.now)
}

func (m *machine) heldBack(id string) bool {
	reg, ok := m.regs[id]
	return ok && !reg.withdrawn && m.now.Sub(m.heard[reg.owner]) >= testGrace*2/3
}

func (m *machine) conn(t *rapid.T) *Owner { return rapid.SampledFrom(m.conns).Draw(t, "conn") }

// put is a registration that a client sends.
func (m *machine) put(t *rapid.T) {
	id, sender := rapid.SampledFrom(testIDs).Draw(t, "id"), m.conn(t)
	old, held := m.regs[id]
	v := max(1, m.versions[id]+rapid.Int64Range(-1, 1).Draw(t, "step"))
	if !held {
		v = max(v, m.versions[id]) // a client's versions never fall; late messages come only while the id is held
	}
	owner := sender
	if o := old.owner; o != nil && o.Client == sender.Client && o.Number > sender.Number {
		owner = o // a late message of an earlier connection
	}
	p := conclave.Publisher{ID: id, Data: dataOf(id), Version: v, Withdrawn: rapid.Bool().Draw(t, "withdrawn")}
	stored, err := put(m.r, sender, p, m.now)
	switch {
	case held && v < old.version:
		assert.Equal(t, wire.CodeConflict, wire.CodeOf(err))
		return
	case held && v == old.version: // an equal version changes the owner only
		wasHeldBack := m.heldBack(id)
		old.owner = owner
		m.regs[id] = old
		if wasHeldBack && !m.heldBack(id) {
			old.stored = time.Time{}
		}
		m.regs[id] = old
		assert.Equal(t, !old.stored.IsZero(), stored)
	default:
		m.regs[id] = modelReg{version: v, withdrawn: p.Withdrawn, owner: owner}
		assert.False(t, stored)
	}
	require.NoError(t, err)
	m.versions[id] = max(m.versions[id], v)
}

// leave ends a connection whose client has gone: its lease has expired.
func (m *machine) leave(o *Owner) {
	o.End()
	m.r.Release(o)
	disown(m.r, o)
	for id, reg := range m.regs {
		switch {
		case reg.owner != o:
		case reg.withdrawn:
			reg.owner = nil
			m.regs[id] = reg
		default:
			delete(m.regs, id)
		}
	}
	delete(m.subs, o)
}

// write makes a Write of a slot with some outcome.
func (m *machine) write(t *rapid.T) {
	n := rapid.IntRange(0, testSlots-1).Draw(t, "slot")
	assert.Zero(t, takeAny(m.r, n, "elsewhere", 1<<20, 10, m.now).Len())
	b := takeAny(m.r, n, address(m.epochs[n]), rapid.IntRange(1, 500).Draw(t, "bytes"), rapid.IntRange(1, 3).Draw(t, "most"), m.now)
	message := b.Message()
	for _, p := range message.GetPuts() {
		assert.False(t, m.heldBack(p.GetId()), "a registration that is held back is not written")
		if reg, held := m.regs[p.GetId()]; held {
			assert.Equal(t, reg.version, p.GetVersion(), "only the newest is written")
		} else {
			assert.True(t, p.GetWithdrawn(), "a tombstone that was queued is written although it is forgotten")
		}
	}
	outcome := rapid.SampledFrom([]string{"stored", "lost", "answer lost", "overtaken"}).Draw(t, "outcome")
	if outcome == "lost" {
		return
	}
	m.data.write(message)
	if outcome == "answer lost" {
		return
	}
	if outcome == "overtaken" {
		m.elect(n) // before the answer, which does not count
	}
	acks, counted := m.r.Settle(b, m.now)
	assert.Equal(t, outcome == "stored", counted)
	if counted {
		m.settled(t, message, acks)
	}
}

func (m *machine) settled(t *rapid.T, b *wirev1.SlotBatch, acks []Ack) {
	var want []Ack
	for _, p := range b.GetPuts() {
		reg, held := m.regs[p.GetId()]
		if !held {
			continue
		}
		if !reg.stored.IsZero() {
			continue
		}
		if reg.owner != nil {
			want = append(want, Ack{p.GetId(), p.GetVersion(), reg.owner})
		}
		reg.stored = m.now
		m.regs[p.GetId()] = reg
	}
	assert.ElementsMatch(t, want, acks, "each version is acknowledged once, to its owner")
}

// compare makes a data node with arbitrary copies agree by diffs.
func (m *machine) compare(t *rapid.T) {
	n := rapid.IntRange(0, testSlots-1).Draw(t, "slot")
	theirs := modelData{}
	for _, id := range testIDs {
		if v := rapid.Int64Range(0, 4).Draw(t, "their version"); v > 0 && slotOf(id) == n {
			theirs[id] = v
		}
	}
	if rapid.Bool().Draw(t, "new leader") {
		m.epochs[n].Seq++ // which the session learns by the diff
	}
	older := m.epochs[n]
	older.Seq--
	for round := 0; ; round++ {
		require.Less(t, round, 5, "a diff ends")
		same, err := theirs.diff(m.r, n, m.epochs[n], m.now)
		if err != nil {
			assert.True(t, slices.ContainsFunc(testIDs, func(id string) bool {
				return slotOf(id) == n && m.heldBack(id) && theirs[id] < m.regs[id].version
			}), "a diff is refused only for registrations that are held back: %v", err)
			break
		}
		if same {
			for _, id := range testIDs {
				if slotOf(id) == n {
					assert.Equal(t, m.regs[id].version, theirs[id])
				}
			}
			break
		}
	}
	_, err := theirs.diff(m.r, n, older, m.now)
	assert.Equal(t, wire.CodeStaleEpoch, wire.CodeOf(err))
}

// change changes a datum. A feed names it at once, or carries it, which takes time.
func (m *machine) change(t *rapid.T, key string) {
	d, n := m.datums[key], slot.Of(key, testSlots)
	d.change(0, rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y", "z"}), 0, 4).Draw(t, "values"))
	switch rapid.SampledFrom([]string{"named", "marked", "carried", "carried"}).Draw(t, "by the feed") {
	case "carried":
		if f := d.read(&wirev1.Want{DataInfoId: key}, m.now); f.GetUnconfirmedMs() == 0 {
			m.feeds[n] = append(m.feeds[n], carried{m.epochs[n], f})
			return
		}
	case "marked":
		d.below, d.until = d.version, m.now.Add(testGrace)
	}
	m.r.Changed([]string{key})
}

// receive lets the session receive what the feed of a slot has carried.
func (m *machine) receive(t *rapid.T, n int) {
	for _, c := range m.feeds[n] {
		pushes, _ := m.r.Carried(n, c.epoch, []*wirev1.Fetched{c.answer}, m.now)
		m.pushed(t, pushes)
	}
	m.feeds[n] = nil
	m.rises(t)
}

// rises checks that what is held of a datum never goes back.
func (m *machine) rises(t *rapid.T) {
	for key, tp := range m.r.topics {
		if before := m.held[tp]; tp.held != nil {
			m.held[tp] = heldAt{tp.epoch, tp.held.version()}
			assert.False(t, tp.epoch.Less(before.epoch) || tp.epoch == before.epoch && tp.held.version() < before.version, "%s goes back", key)
		}
	}
}

// missed checks that what is held of a datum is what its leader has, unless that is on its
// way or asked for.
func (m *machine) missed(t *rapid.T) {
	for key, tp := range m.r.topics {
		n := tp.slot.number
		if tp.held != nil && !tp.due && !tp.reading && tp.epoch == m.epochs[n] && len(m.feeds[n]) == 0 {
			assert.Equal(t, m.datums[key].version, tp.held.version(), "a change of %s is missed", key)
		}
	}
}

// read makes a Fetch of a slot with some outcome.
func (m *machine) read(t *rapid.T, n int, outcome string) {
	assert.Empty(t, func() []*wirev1.Want { rs, _ := m.r.TakeReads(n, "elsewhere", 10, m.now); return rs.Wants }())
	reads, _ := m.r.TakeReads(n, address(m.epochs[n]), 10, m.now)
	var answer []*wirev1.Fetched
	for _, w := range reads.Wants {
		answer = append(answer, m.datums[w.GetDataInfoId()].read(w, m.now))
	}
	switch outcome {
	case "lost":
		answer = nil
	case "cut short":
		answer = answer[:len(answer)/2]
	case "overtaken":
		m.elect(n)
	case "overtaken by the feed":
		for _, f := range answer {
			m.change(t, f.GetDatum().GetDataInfoId())
		}
		m.now = m.now.Add(time.Second) // the push window has ended
		m.receive(t, n)
	}
	pushes, counted := m.r.Fetched(reads, answer, m.now)
	assert.Equal(t, outcome != "overtaken", counted)
	if !counted {
		answer = nil
	}
	m.r.Retry(reads, len(answer), m.now)
	for _, p := range pushes {
		if !p.again && outcome != "overtaken by the feed" { // it may have been marked since
			left := max(0, m.datums[p.datum.message.DataInfoId].until.Sub(m.now))
			assert.InDelta(t, left, p.unconfirmed, float64(time.Millisecond), "for as long as the leader reports")
		}
	}
	m.pushed(t, pushes)
}

// pushed takes pushes as the clients do.
func (m *machine) pushed(t *rapid.T, pushes []Push) {
	for _, p := range pushes {
		if p.again {
			continue
		}
		s := m.subs[p.To][p.ID]
		require.NotNil(t, s, "only who subscribes is sent something")
		d, got := m.datums[s.key], p.datum.message
		assert.Equal(t, s.key, got.GetDataInfoId())
		assert.Greater(t, got.GetVersion(), s.version, "versions rise")
		content, was := d.contents[got.GetVersion()]
		assert.True(t, was)
		assert.True(t, slices.Equal(content, got.GetValues()), "what is pushed as a version is the datum at that version")
		assert.NotEqual(t, s.hash, p.datum.Hash(), "equal content is not pushed")
		s.version, s.hash = got.GetVersion(), p.datum.Hash()
	}
}

// takeAny takes changes of one slot as a Write that has no others does.
func takeAny(r *Registry, slot int, address string, bytes, most int, now time.Time) Batch {
	out := Batch{Slot: slot, Epoch: r.of(slot).epoch}
	for _, class := range Order(0) {
		if len(out.changes) < most && (out.Size == 0 || out.Size < bytes) {
			out.Add(r.Take(slot, address, class, bytes-out.Size, most-len(out.changes), now))
		}
	}
	return out
}
