package client

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// The size follows the time to acceptance, between its limits.
func TestWindow_SizeFollowsTimeToAcceptance(t *testing.T) {
	const long = 200 * time.Millisecond
	w, p, now := newWindow(long), &Publication{version: 1}, time.Now()
	measured := func(took time.Duration, waits bool) int {
		w.send(&flight{began: now}, p, 1000)
		if waits {
			w.wait()
		}
		now = now.Add(took)
		w.accept(p, 1, now)
		return w.size
	}
	assert.Equal(t, windowFirst, measured(time.Millisecond, false), "the window was not what limited the link")
	assert.Equal(t, 2*windowFirst, measured(time.Millisecond, true))
	assert.Equal(t, 2*windowFirst, measured(long*3/4, true), "neither short nor long")
	assert.Equal(t, windowFirst, measured(long+1, true))
	for range 20 {
		measured(long+1, true)
	}
	assert.Equal(t, windowLeast, w.size)
	for range 20 {
		measured(0, true)
	}
	assert.Equal(t, windowMost, w.size)
}

// A publication that is larger than the window is sent when nothing else is in
// flight, and nothing is sent beside it.
func TestWindow_LargePublicationIsSentAlone(t *testing.T) {
	w, large, now := newWindow(time.Second), &Publication{version: 1}, time.Now()
	assert.Positive(t, w.room())
	w.send(&flight{began: now}, large, 10*windowMost)
	assert.LessOrEqual(t, w.room(), 0)
	assert.False(t, w.accept(large, 0, now), "that of an older version")
	assert.True(t, w.accept(large, 1, now), "something else may be sent")
	assert.Equal(t, windowFirst, w.room())
}

// A newer version does not take the place of an older one that is in flight: the
// number of messages is limited also for a client with one publication.
func TestWindow_NewerVersionsFillIt(t *testing.T) {
	w, p, now := newWindow(time.Second), &Publication{}, time.Now()
	for range windowMessages {
		assert.Positive(t, w.room())
		p.version++
		w.send(&flight{began: now}, p, 100)
	}
	assert.Zero(t, w.room())
	assert.True(t, w.accept(p, 1, now), "the older one")
	assert.Equal(t, windowFirst-100, w.room())
	assert.False(t, w.accept(p, 2, now))
	assert.True(t, w.idle())
}

// Whatever is sent, sent again, accepted and dropped: what is in use is the sum
// of what is in flight, and an empty window has room.
func TestWindow_CountsWhatIsInFlight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, now := newWindow(time.Second), time.Now()
		pubs := make([]*Publication, 5)
		for i := range pubs {
			pubs[i] = &Publication{}
		}
		inFlight := map[*Publication][]one{}
		message := &flight{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			p := rapid.SampledFrom(pubs).Draw(t, "publication")
			now = now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond)
			closed, opened, sent := w.room() <= 0, false, false
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0, 1:
				p.version++
				bytes := rapid.IntRange(1, windowFirst).Draw(t, "bytes")
				if message.open == 0 || rapid.Bool().Draw(t, "another message") {
					message = &flight{began: now}
				}
				w.send(message, p, bytes)
				sent = true
				inFlight[p] = append(inFlight[p], one{p.version, bytes, message})
			case 2:
				v := rapid.Int64Range(0, 3).Draw(t, "behind")
				opened = w.accept(p, p.version-v, now)
				inFlight[p] = slices.DeleteFunc(inFlight[p], func(o one) bool { return o.version <= p.version-v })
				if len(inFlight[p]) == 0 {
					delete(inFlight, p)
				}
			case 3:
				opened = w.accept(p, math.MaxInt64, now)
				delete(inFlight, p)
			}
			sum, messages := 0, map[*flight]bool{}
			for _, versions := range inFlight {
				for _, o := range versions {
					sum, messages[o.message] = sum+o.bytes, true
				}
			}
			if w.used != sum || w.messages != len(messages) || w.idle() != (len(inFlight) == 0) {
				t.Fatalf("%d bytes are in use, and %d in flight", w.used, sum)
			}
			if !sent && opened != (closed && w.room() > 0) {
				t.Fatalf("opened: %v, closed before: %v, room: %d", opened, closed, w.room())
			}
			if w.size < windowLeast || w.size > windowMost || len(inFlight) == 0 && w.room() <= 0 {
				t.Fatalf("size %d, room %d", w.size, w.room())
			}
		}
	})
}
