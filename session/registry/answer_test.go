package registry

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/wire"
	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

// partsWorld is a slot's leader with a large list, and a registry that reads it.
type partsWorld struct {
	t    *testing.T
	r    *Registry
	now  time.Time
	list *list.List // the leader's; the version is the length of the first value
}

func newPartsWorld(t *testing.T) *partsWorld {
	w := &partsWorld{t: t, r: New(testGrace, 0, nil), now: time.Now()}
	w.r.Resize(1, w.now)
	w.r.Adopt(0, conclave.Epoch{Term: 1}, "data-1", w.now)
	w.change()
	return w
}

// change makes another list of the leader's.
func (w *partsWorld) change() {
	values, publishers := []string{"v"}, []uint32(nil)
	if w.list != nil {
		values[0] += w.list.Values[0]
	}
	for i := range 80 {
		values = append(values, fmt.Sprint(i, strings.Repeat("x", 60_000)))
		publishers = append(publishers, uint32(i))
	}
	w.list = list.New(values, publishers, 0)
}

// rise makes it the list of a version.
func (w *partsWorld) rise(version int) {
	w.list = list.New(append([]string{strings.Repeat("v", version)}, w.list.Values[1:]...), w.list.Publishers, 0)
}

func (w *partsWorld) version() int64 { return int64(len(w.list.Values[0])) }

func (w *partsWorld) subscribe(to *Owner, id string) []Push {
	pushes, err := w.r.Subscribe(to, &wirev1.Subscription{Id: id, DataInfoId: keyOf("x")}, w.now)
	require.NoError(w.t, err)
	return pushes
}

// take takes what is due.
func (w *partsWorld) take() Reads {
	w.now = w.now.Add(2 * time.Second)
	reads, _ := w.r.TakeReads(0, "data-1", 10, w.now)
	return reads
}

// answer is the leader's answer: a part of the list that the session is reading, or
// the first one of the present list.
func (w *partsWorld) answer(reads Reads, of *list.List) *wirev1.Fetched {
	require.Len(w.t, reads.Wants, 1)
	want := reads.Wants[0]
	require.True(w.t, want.GetParts())
	f := &wirev1.Fetched{Datum: &wirev1.Datum{DataInfoId: keyOf("x"), Version: int64(len(of.Values[0]))}, Hash: of.Hash()}
	if f.Same = f.Hash == want.GetHash(); f.Same {
		return f
	}
	at := list.Position{}
	if of.Wanted(want) {
		at = list.Position{Values: int(want.GetValuesAt()), Publishers: int(want.GetPublishersAt())}
	}
	f.Part, _, _ = of.Part(f.Datum, at, 1<<20)
	return f
}

// read lets the session read the list until nothing is due. Each answer but the last
// of a list must push nothing.
func (w *partsWorld) read(of *list.List) (pushes []Push) {
	for reads := w.take(); len(reads.Wants) > 0; reads = w.take() {
		more, counted := w.r.Fetched(reads, []*wirev1.Fetched{w.answer(reads, of)}, w.now)
		require.True(w.t, counted)
		pushes = append(pushes, more...)
	}
	return pushes
}

func (w *partsWorld) topic() *topic { return w.r.topics[keyOf("x")] }

func TestAssemble_ListIsOfferedWhenItIsWhole(t *testing.T) {
	w := newPartsWorld(t)
	w.subscribe(&Owner{Parts: true}, "s")
	pushes := w.read(w.list)
	require.Len(t, pushes, 1)
	assert.True(t, slices.Equal(w.list.Values, pushes[0].datum.Values))
	assert.True(t, slices.Equal(w.list.Publishers, pushes[0].datum.Publishers))
	assert.Nil(t, w.topic().answer)
}

// What the feed carries between two parts does not end the reading of the others.
func TestAssemble_CarriedBetweenPartsIsReadAfterwards(t *testing.T) {
	w := newPartsWorld(t)
	w.subscribe(&Owner{Parts: true}, "s")
	w.read(w.list)
	w.change()
	w.r.Changed([]string{keyOf("x")})
	reads := w.take()
	_, counted := w.r.Fetched(reads, []*wirev1.Fetched{w.answer(reads, w.list)}, w.now)
	require.True(t, counted)
	w.now = w.now.Add(2 * time.Second)
	pushes, due := w.r.Carried(0, conclave.Epoch{Term: 1}, []*wirev1.Fetched{{Datum: &wirev1.Datum{DataInfoId: keyOf("x"), Version: 100}}}, w.now)
	assert.Empty(t, pushes)
	assert.True(t, due)
	require.NotNil(t, w.topic().answer)
	assert.True(t, w.topic().answer.again)
}

// A change that is reported between two parts is read once the list is whole.
func TestAssemble_ChangeBetweenPartsIsReadAfterwards(t *testing.T) {
	for _, when := range []string{"while the first part is on its way", "after the first part"} {
		t.Run(when, func(t *testing.T) {
			w := newPartsWorld(t)
			w.subscribe(&Owner{Parts: true}, "s")
			before, reads := w.list, w.take()
			first := w.answer(reads, before)
			change := func() {
				w.change()
				require.True(t, w.r.Changed([]string{keyOf("x")}))
			}
			if when != "after the first part" {
				change()
			}
			w.r.Fetched(reads, []*wirev1.Fetched{first}, w.now)
			if when == "after the first part" {
				change()
			}
			var pushes []Push
			for range 20 {
				if len(pushes) > 0 {
					break
				}
				reads = w.take()
				more, _ := w.r.Fetched(reads, []*wirev1.Fetched{w.answer(reads, before)}, w.now)
				pushes = append(pushes, more...)
			}
			require.Len(t, pushes, 1)
			assert.EqualValues(t, 1, pushes[0].datum.version())
			pushes = w.read(w.list)
			require.Len(t, pushes, 1)
			assert.Equal(t, w.version(), pushes[0].datum.version())
		})
	}
}

// When the leader does not have the list any more, or the slot has another leader, the
// read begins again; a part that does not fit ends it for a while.
func TestAssemble_BeginsAgain(t *testing.T) {
	w := newPartsWorld(t)
	w.subscribe(&Owner{Parts: true}, "s")
	part := func() {
		reads := w.take()
		w.r.Fetched(reads, []*wirev1.Fetched{w.answer(reads, w.list)}, w.now)
	}
	part()
	w.change()
	part()
	require.NotNil(t, w.topic().answer)
	of := &wirev1.Want{}
	w.topic().answer.list.Continue(of)
	assert.True(t, w.list.Wanted(of))

	w.r.Adopt(0, conclave.Epoch{Term: 2}, "data-1", w.now)
	reads := w.take()
	assert.Zero(t, reads.Wants[0].GetPartHash(), "what the last leader has sent does not count")
	f := w.answer(reads, w.list)
	f.Part.ValuesAt++
	pushes, _ := w.r.Fetched(reads, []*wirev1.Fetched{f}, w.now)
	assert.Empty(t, pushes)
	_, next := w.r.TakeReads(0, "data-1", 10, w.now)
	assert.Equal(t, w.now.Add(unfitPause), next)
	pushes = w.read(w.list)
	require.Len(t, pushes, 1)
	assert.True(t, slices.Equal(w.list.Values, pushes[0].datum.Values))
}

// A list that begins again has the version of its first part, also if its values are those
// that were being read.
func TestAssemble_FirstPartHasTheVersion(t *testing.T) {
	w := newPartsWorld(t)
	w.subscribe(&Owner{Parts: true}, "s")
	reads := w.take()
	w.r.Fetched(reads, []*wirev1.Fetched{w.answer(reads, w.list)}, w.now)
	require.NotNil(t, w.topic().answer)
	w.list = list.New(w.list.Values, append([]uint32{1000}, w.list.Publishers[1:]...), 0)
	reads = w.take()
	f := w.answer(reads, w.list)
	require.Zero(t, f.GetPart().GetValuesAt())
	f.Datum.Version = 9
	w.r.Fetched(reads, []*wirev1.Fetched{f}, w.now)
	pushes := w.read(w.list)
	require.Len(t, pushes, 1)
	assert.EqualValues(t, 9, pushes[0].datum.version())
	assert.True(t, slices.Equal(w.list.Publishers, pushes[0].datum.Publishers))
}

// The push guard knows what the leader said with any part of the list.
func TestAssemble_MarksOfAllPartsCount(t *testing.T) {
	w := newPartsWorld(t)
	w.subscribe(&Owner{Parts: true}, "s")
	reads := w.take()
	f := w.answer(reads, w.list)
	f.UnconfirmedMs, f.UnexplainedVersion, f.IncompleteMs, f.Withdrawn = 3_600_000, 7, 3_600_000, []uint32{5}
	w.r.Fetched(reads, []*wirev1.Fetched{f}, w.now)
	at := w.now
	w.read(w.list)
	m := w.topic().mark
	assert.EqualValues(t, 7, m.below)
	assert.Equal(t, []uint32{5}, m.withdrawn)
	assert.WithinDuration(t, at.Add(time.Hour), m.until, time.Millisecond)
	assert.WithinDuration(t, at.Add(time.Hour), m.incomplete, time.Millisecond)
}

// A client that comes with a higher version while a list is read in parts is not
// refused: the leader was not asked to rise above that yet. One that claims what cannot
// be is refused after the next read, and no other that has come during that one.
func TestRefuse_ClientThatComesBetweenPartsStays(t *testing.T) {
	w := newPartsWorld(t)
	w.subscribe(&Owner{Parts: true}, "first")
	w.read(w.list)
	claim := func(id string, version int64) {
		_, err := w.r.Subscribe(&Owner{Parts: true}, &wirev1.Subscription{Id: id, DataInfoId: keyOf("x"), Version: version, Hash: 7}, w.now)
		require.NoError(t, err)
	}
	// read reads the whole list, in the middle of which a client comes.
	read := func(asked int64, comes func()) (pushed, refused []string) {
		parts := 0
		for ; parts == 0 || w.topic().answer != nil; parts++ {
			reads := w.take()
			require.Equal(t, parts > 0, reads.Wants[0].GetPartHash() != 0)
			if parts == 0 {
				assert.Equal(t, asked, reads.Wants[0].GetVersion())
			}
			pushes, _ := w.r.Fetched(reads, []*wirev1.Fetched{w.answer(reads, w.list)}, w.now)
			for _, p := range pushes {
				if p.refusal != nil {
					refused = append(refused, p.ID)
					continue
				}
				assert.Equal(t, w.version(), p.datum.version())
				pushed = append(pushed, p.ID)
			}
			if parts == 1 {
				comes()
			}
		}
		require.Greater(t, parts, 2)
		return pushed, refused
	}
	w.change()
	w.r.Changed([]string{keyOf("x")})
	pushed, refused := read(0, func() { claim("moved", 100) })
	assert.Equal(t, []string{"first"}, pushed)
	assert.Empty(t, refused)

	w.rise(101) // the leader has risen
	pushed, refused = read(100, func() { claim("liar", 1<<52) })
	assert.Equal(t, []string{"first", "moved"}, pushed)
	assert.Empty(t, refused)

	w.rise(102) // as far as it rises
	pushed, refused = read(1<<52, func() { claim("moved too", 103) })
	assert.Equal(t, []string{"first", "moved"}, pushed)
	assert.Equal(t, []string{"liar"}, refused)
	w.rise(104)
	pushed, refused = read(103, func() {})
	assert.Equal(t, []string{"first", "moved", "moved too"}, pushed)
	assert.Empty(t, refused)
	assert.Empty(t, w.take().Wants)
}

// A list that is too large to be sent is reported to each subscriber once, and counted
// until it is sent again.
func TestTooLarge_IsReported(t *testing.T) {
	w := newPartsWorld(t)
	w.subscribe(&Owner{Parts: true}, "s")
	tooLarge := func() []Push {
		reads := w.take()
		pushes, counted := w.r.Fetched(reads, []*wirev1.Fetched{{Datum: &wirev1.Datum{DataInfoId: keyOf("x"), Version: 5}, TooLarge: 1 << 30}}, w.now)
		assert.True(t, counted)
		return pushes
	}
	pushes := tooLarge()
	require.Len(t, pushes, 1)
	var o Outbox
	o.Push(pushes[0])
	m := o.Next()
	require.Len(t, m.GetWithheld(), 1)
	assert.Equal(t, "the list has 1073741824 bytes, at most 268435456 can be sent", m.Withheld[0].GetMessage())
	assert.Equal(t, string(wire.CodeTooLarge), m.Withheld[0].GetCode())
	assert.Empty(t, m.GetRefused())
	assert.Equal(t, 1, w.r.Figures().TooLarge)
	w.r.Changed([]string{keyOf("x")})
	assert.Empty(t, tooLarge(), "it knows")

	pushes = w.subscribe(&Owner{}, "of an older build")
	require.Len(t, pushes, 1)
	o.Push(pushes[0])
	assert.Len(t, o.Next().GetRefused(), 1)
	assert.Len(t, w.topic().subs, 1, "its subscription has ended")

	for range 4 {
		w.change() // its version is above 5
	}
	w.r.Changed([]string{keyOf("x")})
	assert.Len(t, w.read(w.list), 1)
	assert.Zero(t, w.r.Figures().TooLarge)
	w.r.Changed([]string{keyOf("x")})
	assert.Len(t, tooLarge(), 1, "it had been sent since")
	assert.Equal(t, 1, w.r.Figures().TooLarge)
	for _, s := range slices.Clone(w.topic().subs) {
		w.r.Unsubscribe(s.to, s.id)
	}
	assert.Zero(t, w.r.Figures().TooLarge)
}

// When a list that was too large is again what a subscriber has, the subscriber is pushed
// it, with a higher version: it learns that the list is not too large any more.
func TestTooLarge_SameListEndsIt(t *testing.T) {
	w := newPartsWorld(t)
	hash := list.ContentHash([]string{"v"})
	answer := func(f *wirev1.Fetched) (ids []string) {
		f.Datum.DataInfoId = keyOf("x")
		w.r.Changed([]string{keyOf("x")})
		pushes, _ := w.r.Fetched(w.take(), []*wirev1.Fetched{f}, w.now)
		for _, p := range pushes {
			assert.Equal(t, f.GetTooLarge() > 0, p.withheld)
			assert.Equal(t, f.GetTooLarge() > 0, p.refusal != nil)
			ids = append(ids, p.ID)
		}
		return ids
	}
	same := func(version int64) *wirev1.Fetched {
		return &wirev1.Fetched{Datum: &wirev1.Datum{Version: version}, Same: true, Hash: hash}
	}
	large := func() *wirev1.Fetched { return &wirev1.Fetched{Datum: &wirev1.Datum{Version: 5}, TooLarge: 1 << 30} }
	w.subscribe(&Owner{Parts: true}, "s")
	assert.Equal(t, []string{"s"}, answer(&wirev1.Fetched{Datum: &wirev1.Datum{Version: 1, Values: []string{"v"}}, Hash: hash}))
	assert.Equal(t, []string{"s"}, answer(large()))
	assert.Equal(t, []string{"s"}, answer(same(6)))
	assert.Empty(t, answer(same(6)), "equal content is not pushed again")
	assert.Equal(t, []string{"s"}, answer(large()), "it had been sent since")

	// One that has it from another session, at the same version, gets it above that.
	pushes, err := w.r.Subscribe(&Owner{Parts: true}, &wirev1.Subscription{Id: "moved", DataInfoId: keyOf("x"), Version: 7, Hash: hash}, w.now)
	require.NoError(t, err)
	require.Len(t, pushes, 1)
	assert.True(t, pushes[0].withheld)
	assert.Equal(t, []string{"s"}, answer(same(7)))
	reads := w.take()
	require.Len(t, reads.Wants, 1)
	assert.EqualValues(t, 7, reads.Wants[0].GetVersion())
	pushes, _ = w.r.Fetched(reads, []*wirev1.Fetched{{Datum: &wirev1.Datum{DataInfoId: keyOf("x"), Version: 8, Values: []string{"v"}}, Hash: hash}}, w.now)
	require.Len(t, pushes, 1)
	assert.Equal(t, "moved", pushes[0].ID)
	assert.Empty(t, w.take().Wants)
}

// A client that cannot put a list together is not sent one that it cannot receive.
func TestOffer_OlderClientIsRefusedWhatItCannotReceive(t *testing.T) {
	w := newPartsWorld(t)
	old := &Owner{}
	w.subscribe(old, "old")
	f := &wirev1.Fetched{Datum: &wirev1.Datum{DataInfoId: keyOf("x"), Version: 1}, Hash: 7}
	for range wire.MaxMessage / 60_000 {
		f.Datum.Values = append(f.Datum.Values, w.list.Values[1])
	}
	f.Datum.Values = append(f.Datum.Values, f.Datum.Values[:10]...)
	pushes, _ := w.r.Fetched(w.take(), []*wirev1.Fetched{f}, w.now)
	require.Len(t, pushes, 1)
	assert.Equal(t, string(wire.CodeTooLarge), pushes[0].refusal.GetCode())
	assert.False(t, pushes[0].withheld)
}

// A session reads no list that is announced as larger than its own limit. Other lists
// are pushed.
func TestTooLarge_OfTheLimitOfThisSession(t *testing.T) {
	w := newPartsWorld(t)
	w.r.Limit(Limits{ListBytes: w.list.Bytes() - 1})
	w.subscribe(&Owner{Parts: true}, "s")
	pushes := w.read(w.list)
	require.Len(t, pushes, 1)
	assert.True(t, pushes[0].withheld)
	assert.Equal(t, 1, w.r.Figures().TooLarge)
	assert.Nil(t, w.topic().answer, "nothing of it is held")

	_, err := w.r.Subscribe(&Owner{Parts: true}, &wirev1.Subscription{Id: "other", DataInfoId: keyOf("y")}, w.now)
	require.NoError(t, err)
	pushes, _ = w.r.Fetched(w.take(), []*wirev1.Fetched{{Datum: &wirev1.Datum{DataInfoId: keyOf("y"), Version: 1, Values: []string{"v"}}, Hash: 7}}, w.now)
	require.Len(t, pushes, 1)
	assert.NotNil(t, pushes[0].datum)

	w.list = list.New([]string{"vv"}, []uint32{1}, 0)
	w.r.Changed([]string{keyOf("x")})
	assert.Len(t, w.read(w.list), 1)
	assert.Zero(t, w.r.Figures().TooLarge)
}

// A list that has grown too large is not sent, however the session has received it.
func TestOffer_ListThatIsTooLargeIsWithheld(t *testing.T) {
	w := newPartsWorld(t)
	w.subscribe(&Owner{Parts: true, Deltas: true}, "s")
	f := &wirev1.Fetched{Datum: &wirev1.Datum{DataInfoId: keyOf("x"), Version: 1}, Hash: 7}
	for len(f.Datum.Values)*len(w.list.Values[1]) <= list.MaxBytes {
		f.Datum.Values = append(f.Datum.Values, w.list.Values[1])
	}
	pushes, _ := w.r.Fetched(w.take(), []*wirev1.Fetched{f}, w.now)
	require.Len(t, pushes, 1)
	assert.True(t, pushes[0].withheld)
	assert.Equal(t, string(wire.CodeTooLarge), pushes[0].refusal.GetCode())
}

// A push in parts is sent to its end before a newer one, and what is for other
// subscriptions goes in between.
func TestOutbox_PartsAreOfOneVersion(t *testing.T) {
	w := newPartsWorld(t)
	to := &Owner{Parts: true, Deltas: true}
	var o Outbox
	give := func(pushes []Push) {
		for _, p := range pushes {
			o.Push(p)
		}
	}
	give(w.subscribe(to, "s"))
	give(w.subscribe(to, "t"))
	give(w.read(w.list))
	first := w.list
	m := o.Next()
	require.Len(t, m.GetPushes(), 1)
	assert.Equal(t, []string{"s", "t"}, m.Pushes[0].GetSubscriptions(), "one datum is sent once")

	w.change()
	w.r.Changed([]string{keyOf("x")})
	give(w.read(w.list))
	o.Push(Push{To: to, ID: "small", unsent: unsent{datum: datumOf(&wirev1.Datum{DataInfoId: "y", Version: 1, Values: []string{"v"}}, 0)}})
	var a list.Assembly
	var got []*list.List
	small := 0
	for messages := 0; m != nil; m = o.Next() {
		messages++
		bytes := 0
		for _, p := range m.GetPushes() {
			if bytes += list.New(p.GetDatum().GetValues(), p.GetDatum().GetPublishers(), 0).Bytes(); p.GetDatum().GetDataInfoId() == "y" {
				assert.Equal(t, 2, messages, "it does not wait for the end of the list")
				small++
				continue
			}
			assert.Equal(t, []string{"s", "t"}, p.GetSubscriptions())
			var base *list.List
			if p.GetDelta() != nil {
				require.Len(t, got, 1)
				base = got[0]
			}
			whole, err := a.Add(p, base)
			require.NoError(t, err)
			if whole != nil {
				got = append(got, whole)
			}
		}
		assert.Less(t, bytes, messageBytes+list.PartBytes)
	}
	assert.Equal(t, 1, small)
	require.Len(t, got, 2)
	assert.True(t, slices.Equal(first.Values, got[0].Values))
	assert.True(t, slices.Equal(w.list.Values, got[1].Values))
	assert.True(t, slices.Equal(w.list.Publishers, got[1].Publishers))
	assert.Nil(t, o.parts)
	assert.Empty(t, o.pushes)
}
