package main

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/meta/metaclient"
	"conclave/testbed/bench"
)

func TestTermWatch_FindsNothingInACorrectHistory(t *testing.T) {
	w := newTermWatch(nil, nil)
	for _, term := range []uint64{1, 1, 2, 2, 4} {
		w.said("meta-1", term, map[uint64]string{1: "a", 2: "b", 4: "a"}[term])
	}
	w.said("meta-2", 2, "b") // it lags behind, which is no breach
	meta := fakeMeta(t, map[string]any{"GET /v1/elections": []metaclient.Election{{Term: 4, Owner: "a"}, {Term: 2, Owner: "b"}, {Term: 1, Owner: "a"}}})
	c := newHTTPClient()
	defer c.CloseIdleConnections()
	require.NoError(t, w.history(context.Background(), metaclient.NewAdmin(metaclient.AdminConfig{Metas: []string{meta}, HTTP: c})))
	assert.Empty(t, w.broken())
	for _, i := range w.invariants() {
		assert.Positive(t, i.Checks, i.Name)
	}
}

func TestTermWatch_FindsViolations(t *testing.T) {
	w := newTermWatch(nil, nil)
	w.said("meta-1", 3, "a")
	w.said("meta-2", 3, "b")
	require.Len(t, w.broken(), 1)
	assert.Contains(t, w.broken()[0], "term 3 was owned by a and by b")
	w.said("meta-1", 2, "c")
	require.Len(t, w.broken(), 2)
	assert.Contains(t, w.broken()[1], "meta-1 named term 2 after term 3")
	meta := fakeMeta(t, map[string]any{"GET /v1/elections": []metaclient.Election{{Term: 5, Owner: "a"}, {Term: 5, Owner: "a"}}})
	c := newHTTPClient()
	defer c.CloseIdleConnections()
	require.NoError(t, w.history(context.Background(), metaclient.NewAdmin(metaclient.AdminConfig{Metas: []string{meta}, HTTP: c})))
	assert.Len(t, w.broken(), 3)
}

func TestVerdict_NeedsEveryInvariantCheckedAndHeld(t *testing.T) {
	held := bench.Invariant{Name: "held", Checks: 7}
	for _, c := range []struct {
		all  []bench.Invariant
		want error
		text string
	}{
		{nil, errNotLooked, "Nothing was checked"},
		{[]bench.Invariant{{Name: "never judged"}}, errNotLooked, "Nothing was checked"},
		{[]bench.Invariant{held}, nil, "Every invariant held"},
		{[]bench.Invariant{held, {Name: "never judged"}}, errNotAll, "NOT every invariant was checked"},
		{[]bench.Invariant{held, {Name: "never judged"}, {Name: "broken", Checks: 5, Broken: 1}}, errBroke, "NOT every invariant held"},
	} {
		var out bytes.Buffer
		assert.Equal(t, c.want, newStory(&out, false).verdict(c.all, nil))
		assert.Contains(t, out.String(), c.text)
	}
}

func TestStory_JSONIsOneDocument(t *testing.T) {
	var out bytes.Buffer
	s := newStory(&out, true)
	s.title("x", "y", "z")
	s.scene("START", "what")
	s.figure("ready after", "12 ms", "")
	s.look("there")
	assert.Empty(t, out.String(), "nothing before the end")
	require.NoError(t, s.verdict([]bench.Invariant{{Name: "held", Checks: 1}}, nil))
	var doc struct {
		Scenes []scene `json:"scenes"`
		Held   bool    `json:"held"`
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &doc))
	assert.True(t, doc.Held)
	require.Len(t, doc.Scenes, 1)
	assert.Equal(t, "12 ms", doc.Scenes[0].Figures[0].Value)
}
