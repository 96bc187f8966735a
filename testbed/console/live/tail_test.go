package live

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/internal/trace"
	"conclave/testbed/console"
)

func TestTail_ReadsWholeLinesOnce(t *testing.T) {
	dir := t.TempDir()
	f, err := os.OpenFile(filepath.Join(dir, "meta-1.trace"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(t, err)
	defer f.Close()
	sink := trace.To(f)
	files := newTail(dir)
	defer files.close()
	read := func() (terms []uint64) {
		all, err := files.read(func(_ time.Time, c trace.Claim) { terms = append(terms, c.Term) })
		require.NoError(t, err)
		assert.True(t, all)
		return terms
	}
	claim := func(term uint64) {
		sink(trace.Claim{Node: conclave.NodeID{Name: "meta-1", Incarnation: "a"}, Kind: trace.Led, Term: term})
	}
	assert.Empty(t, read())
	claim(1)
	claim(2)
	assert.Equal(t, []uint64{1, 2}, read())
	assert.Empty(t, read())
	_, err = f.WriteString(`{"at":"2026-`) // its process was killed in the middle of a line
	require.NoError(t, err)
	assert.Empty(t, read(), "the line may be continued")
	claim(3)
	assert.Equal(t, []uint64{3}, read())
}

// A file that was read takes no space, however much was written to it.
func TestTail_FreesWhatWasRead(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "meta-1.trace")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(t, err)
	defer f.Close()
	sink := trace.To(f)
	files := newTail(dir)
	defer files.close()
	n := 0
	for range 5000 {
		sink(trace.Claim{Node: conclave.NodeID{Name: "meta-1", Incarnation: "a"}, Kind: trace.Extended, Term: 7})
	}
	for range 3 {
		_, err := files.read(func(time.Time, trace.Claim) { n++ })
		require.NoError(t, err)
	}
	assert.Equal(t, 5000, n)
	info, err := os.Stat(name)
	require.NoError(t, err)
	blocks := info.Sys().(*syscall.Stat_t).Blocks * 512
	if blocks > info.Size()/2 {
		t.Skip("this file system frees nothing")
	}
	assert.Less(t, blocks, int64(64<<10))
	sink(trace.Claim{Kind: trace.Left})
	_, err = files.read(func(time.Time, trace.Claim) { n++ })
	require.NoError(t, err)
	assert.Equal(t, 5001, n, "the node appends where it was")
}

// A file that grows faster than it is read has more: nothing is checked as if it
// had been read.
func TestTail_SaysWhenThereIsMore(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "meta-1.trace"))
	require.NoError(t, err)
	defer f.Close()
	written := 0
	for buffer := (bytes.Buffer{}); written < 3*readAtMost/2; {
		trace.To(&buffer)(trace.Claim{Node: conclave.NodeID{Name: strings.Repeat("x", 60_000)}, Kind: trace.Extended, Term: 7})
		n, err := buffer.WriteTo(f)
		require.NoError(t, err)
		written += int(n)
	}
	files := newTail(dir)
	defer files.close()
	all, err := files.read(func(time.Time, trace.Claim) {})
	require.NoError(t, err)
	assert.False(t, all)
	all, err = files.read(func(time.Time, trace.Claim) {})
	require.NoError(t, err)
	assert.True(t, all)
}

func TestTail_ErrorIsShownAndNothingNewerIsChecked(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "meta-1.trace"), 0o700))
	files := newTail(dir)
	defer files.close()
	all, err := files.read(func(time.Time, trace.Claim) {})
	require.Error(t, err)
	assert.False(t, all)
	r := &record{meter: newMeter()}
	r.took(time.Now(), all, err)
	var out console.State
	r.show(&out)
	assert.Contains(t, out.Watching, "events cannot be read")
	assert.Contains(t, out.Watching, "meta-1.trace")
	r.took(time.Now(), true, nil)
	out = console.State{}
	r.show(&out)
	assert.Empty(t, out.Watching)
}
