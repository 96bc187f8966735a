package blackbox

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/testbed"
)

// The package shares no code with the servers that it checks, nor with the
// checkers: of the testbed it knows the nouns.
func TestPackage_ImportsNoServer(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.Module.Path}} {{join .Imports " "}}`, ".").Output()
	require.NoError(t, err)
	list := strings.Fields(string(out))
	for _, imp := range list[1:] {
		if part, ok := strings.CutPrefix(imp, list[0]); ok {
			assert.Contains(t, []string{"", "/testbed"}, part)
		}
	}
}

// fake is a client whose registrations are those of the test.
type fake struct {
	testbed.Client
	push   func(conclave.Datum)
	closed error
	killed bool
	pub    fakePublication
}

type fakePublication struct {
	testbed.Publication
	stored error
}

func (p *fakePublication) Update([]string) error        { return nil }
func (p *fakePublication) Withdraw() error              { return nil }
func (p *fakePublication) Stored(context.Context) error { return p.stored }

func (c *fake) Publish(ctx context.Context, _ string, _ []string) (testbed.Publication, error) {
	return &c.pub, ctx.Err()
}

func (c *fake) Subscribe(_ string, pushed func(conclave.Datum)) error {
	c.push = pushed
	return nil
}

func (c *fake) Close(context.Context) error { return c.closed }
func (c *fake) Kill()                       { c.killed = true }

func TestClient_ReportsWhatItDoesAndSees(t *testing.T) {
	f, inner := newForged(), &fake{}
	c := f.Observe("client-1", inner)
	got := 0
	require.NoError(t, c.Subscribe("d", func(conclave.Datum) { got++ }))
	p, err := c.Publish(t.Context(), "d", []string{"a#1"})
	require.NoError(t, err)
	require.NoError(t, p.Stored(t.Context()))
	require.NoError(t, p.Update([]string{"a#002"}))
	require.NoError(t, p.Stored(t.Context()))
	assert.Error(t, p.Update([]string{"two", "values"}))
	inner.push(conclave.Datum{Version: 1, Values: []string{"a#002"}})
	assert.Equal(t, 1, got)
	assert.Empty(t, f.Behind(0))
	assert.Equal(t, 2, f.regs["a"].begun)
	assert.Len(t, f.regs["a"].storedAt, 2)

	require.NoError(t, p.Withdraw())
	assert.Negative(t, f.regs["a"].gone)
	require.NoError(t, p.Stored(t.Context()))
	assert.Equal(t, f.t, f.regs["a"].gone)
	pushes, acks := f.Totals()
	assert.Equal(t, []int{1, 3}, []int{pushes, acks})
	assert.Zero(t, f.Broken())

	inner.pub.stored = errors.New("refused")
	p, err = c.Publish(t.Context(), "d", []string{"b#1"})
	require.NoError(t, err)
	require.Error(t, p.Stored(t.Context()))
	assert.Equal(t, 1, f.count(Accepted).Broken)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, p.Stored(ended))
	_, err = c.Publish(ended, "d", []string{"c#1"})
	require.Error(t, err)
	assert.True(t, f.regs["c"].killed, "it may be seen or not")
	assert.Equal(t, 1, f.Broken(), "a wait that has ended is no refusal")
}

func TestClient_WithdrawsWhenItIsClosed(t *testing.T) {
	for name, closed := range map[string]error{"acknowledged": nil, "not acknowledged": context.DeadlineExceeded} {
		t.Run(name, func(t *testing.T) {
			f, inner := newForged(), &fake{closed: closed}
			c := f.Observe("client-1", inner)
			require.NoError(t, c.Subscribe("d", func(conclave.Datum) {}))
			_, err := c.Publish(t.Context(), "d", []string{"a#1"})
			require.NoError(t, err)
			assert.Equal(t, closed, c.Close(t.Context()))
			assert.False(t, f.regs["a"].killed)
			assert.Equal(t, closed == nil, f.regs["a"].gone >= 0)
			assert.Empty(t, f.views)
		})
	}
	f, inner := newForged(), &fake{}
	c := f.Observe("client-2", inner)
	_, err := c.Publish(t.Context(), "d", []string{"a#1"})
	require.NoError(t, err)
	f.KillAll()
	assert.True(t, inner.killed)
	assert.True(t, f.regs["a"].killed)
	assert.Empty(t, f.clients)
}
