package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "conclave/internal/bubble"
)

// content returns the kind and the content of an encoded message.
func content(t *testing.T, body []byte) (kind string, out map[string]any) {
	t.Helper()
	for line := range strings.Lines(string(body)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch name {
		case "event":
			kind = value
		case "data":
			require.NoError(t, json.Unmarshal([]byte(value), &out))
		}
	}
	return kind, out
}

func state(term uint64, nodes map[string]Node) State {
	return State{Mode: "live", Term: term, Nodes: nodes}
}

func TestShow_SendsOnlyWhatDiffers(t *testing.T) {
	h := NewHub()
	h.Show(state(1, map[string]Node{"meta-1": {Role: "meta", State: "ready"}, "meta-2": {Role: "meta"}}))
	v, first := h.watch()
	kind, snapshot := content(t, first)
	assert.Equal(t, "snapshot", kind)
	assert.Len(t, snapshot["nodes"], 2)

	h.Show(state(2, map[string]Node{"meta-1": {Role: "meta", State: "killed"}}), Event{Node: "meta-1", Text: "killed"})
	kind, diff := content(t, <-v.queue)
	assert.Equal(t, "change", kind)
	assert.EqualValues(t, 2, diff["term"])
	assert.NotContains(t, diff, "mode")
	nodes := diff["nodes"].(map[string]any)
	assert.Equal(t, "killed", nodes["meta-1"].(map[string]any)["state"])
	assert.Contains(t, nodes, "meta-2")
	assert.Nil(t, nodes["meta-2"], "it is gone")
	assert.Len(t, diff["events"], 1)

	h.Show(state(2, map[string]Node{"meta-1": {Role: "meta", State: "killed"}}))
	assert.Empty(t, v.queue, "nothing has changed")
}

func TestShow_SendsTheTimeAloneOnceASecond(t *testing.T) {
	h := NewHub()
	v, _ := h.watch()
	for now := int64(10_000); now < 20_000; now += 250 {
		h.Show(State{Mode: "live", Now: now})
	}
	assert.Len(t, v.queue, 10, "the state, and each second after it")
	h.Show(State{Mode: "live", Now: 20_001, Term: 1})
	h.Show(State{Mode: "live", Now: 20_002, Term: 2})
	assert.Len(t, v.queue, 12, "what else changes is sent at once")
	h.Show(State{Mode: "live", Now: 100, Term: 2})
	assert.Len(t, v.queue, 13, "back in a recording")
}

// What 50 viewers cost is one write for each message and viewer; the encoded bytes
// are the same ones.
func TestStream_WritesEachMessageOnceAndEncodesItOnce(t *testing.T) {
	const viewers, messages = 50, 40
	synctest.Test(t, func(t *testing.T) {
		h := NewHub()
		server := NewServer(Config{Hub: h})
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		out := make([]*counted, viewers)
		for i := range out {
			out[i] = &counted{header: http.Header{}, encoded: map[*byte]int{}}
			all.Go(func() {
				server.ServeHTTP(out[i], httptest.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/v1/stream", nil))
			})
		}
		synctest.Wait()
		for i := range messages {
			h.Show(state(uint64(i+1), nil), Event{Text: "e"})
			synctest.Wait()
		}
		h.Show(state(messages, nil))
		synctest.Wait()
		for _, o := range out {
			assert.Equal(t, 1+messages, o.writes)
			assert.Equal(t, 1+messages, o.flushes, "and nothing while nothing changes")
			assert.Equal(t, out[0].bytes, o.bytes)
			assert.Equal(t, out[0].encoded, o.encoded, "the same memory")
			for n := range messages {
				_, diff := content(t, o.got[n+1])
				assert.EqualValues(t, n+1, diff["term"])
				assert.Len(t, diff["events"], 1, "no event is missing")
			}
		}
		assert.Len(t, h.viewers, viewers, "none was dropped")
		assert.Less(t, out[0].bytes, messages*250)
		cancel()
		all.Wait()
	})
}

// Messages that wait for a viewer are flushed together.
func TestStream_FlushesWhatWaitsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHub()
		ctx, cancel := context.WithCancel(t.Context())
		slow := &counted{header: http.Header{}, encoded: map[*byte]int{}, pause: time.Second}
		var all sync.WaitGroup
		all.Go(func() {
			NewServer(Config{Hub: h}).ServeHTTP(slow, httptest.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/v1/stream", nil))
		})
		synctest.Wait()
		for i := range 20 {
			h.Show(state(uint64(i+1), nil))
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.Equal(t, 21, slow.writes)
		assert.Equal(t, 2, slow.flushes)
		cancel()
		all.Wait()
	})
}

// counted is an answer that counts how it is written.
type counted struct {
	header                 http.Header
	writes, flushes, bytes int
	encoded                map[*byte]int // by the address of the bytes
	got                    [][]byte
	pause                  time.Duration // of a flush
}

func (c *counted) Header() http.Header              { return c.header }
func (c *counted) WriteHeader(int)                  {}
func (c *counted) SetWriteDeadline(time.Time) error { return nil }

func (c *counted) Write(b []byte) (int, error) {
	c.writes, c.bytes, c.got = c.writes+1, c.bytes+len(b), append(c.got, b)
	c.encoded[&b[0]]++
	return len(b), nil
}

func (c *counted) FlushError() error {
	c.flushes++
	time.Sleep(c.pause)
	return nil
}

func TestShow_DropsViewerThatDoesNotRead(t *testing.T) {
	h := NewHub()
	slow, _ := h.watch()
	quick, _ := h.watch()
	for term := range uint64(viewerQueue + 10) {
		h.Show(state(term+1, nil))
		assert.NotNil(t, <-quick.queue)
	}
	assert.Len(t, h.viewers, 1, "the other one was dropped")
	n := 0
	for range slow.queue {
		n++
	}
	assert.Equal(t, viewerQueue, n, "its queue ends")
}

func TestRestart_ReplacesEventsToo(t *testing.T) {
	h := NewHub()
	h.Show(state(1, nil), Event{Text: "a"}, Event{Text: "b"})
	v, _ := h.watch()
	h.Restart(state(5, nil), []Event{{Text: "c"}})
	kind, snapshot := content(t, <-v.queue)
	assert.Equal(t, "snapshot", kind)
	assert.Len(t, snapshot["events"], 1)
	_, first := h.watch()
	_, again := content(t, first)
	assert.Equal(t, snapshot, again)
}

func TestWatch_EncodesASnapshotOnceForAllViewers(t *testing.T) {
	h := NewHub()
	h.Show(state(1, nil), Event{Text: "a"})
	v, first := h.watch()
	_, second := h.watch()
	assert.Same(t, &first[0], &second[0])
	h.Show(state(2, nil))
	h.leave(v)
	_, third := h.watch()
	_, snapshot := content(t, third)
	assert.EqualValues(t, 2, snapshot["term"])
}

func TestWatch_HasPlacesForSoManyViewers(t *testing.T) {
	h := NewHub()
	var v *viewer
	for range maxViewers {
		v, _ = h.watch()
		assert.NotNil(t, v)
	}
	none, _ := h.watch()
	assert.Nil(t, none)
	answer := httptest.NewRecorder()
	NewServer(Config{Hub: h}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/v1/stream", nil))
	assert.Equal(t, http.StatusServiceUnavailable, answer.Code)
	h.leave(v)
	again, _ := h.watch()
	assert.NotNil(t, again)
}
