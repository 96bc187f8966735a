package node_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"conclave"
	"conclave/internal/node"
	"conclave/testbed/simulated/simnet"
	"conclave/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func config(network *simnet.Net, name string) node.Config {
	return node.Config{
		Node: conclave.NodeID{Name: name, Incarnation: "i1"}, Listen: name + ":1", Insecure: true,
		Metas: []string{"meta-1:1"}, Network: network.Host(name),
	}
}

func newBase(network *simnet.Net, name string) *node.Base {
	return node.New(config(network, name).WithDefaults(), conclave.RoleData)
}

func run(ctx context.Context, b *node.Base, loop func(context.Context) error) <-chan error {
	ran := make(chan error, 1)
	go func() {
		ran <- b.Run(ctx, 0, func(string) (http.Handler, error) {
			return b.Router(func() (bool, []string) { return true, nil }, b.Meta.Announced), nil
		}, loop)
	}()
	return ran
}

func until(ctx context.Context) error { <-ctx.Done(); return nil }

func TestRun_EndsByStopCrashOrError(t *testing.T) {
	broken := errors.New("the name is taken")
	failed := errors.New("not all was handed over")
	for name, c := range map[string]struct {
		loop func(context.Context) error
		end  func(*testing.T, *node.Base, context.CancelFunc)
		want error
	}{
		"stop": {until, func(t *testing.T, b *node.Base, _ context.CancelFunc) {
			err := b.Shutdown(t.Context(), func(context.Context) error { return failed })
			assert.ErrorIs(t, err, failed, "the stop is completed all the same")
			assert.NoError(t, b.Shutdown(t.Context(), nil), "a second one waits")
		}, nil},
		"crash": {until, func(_ *testing.T, _ *node.Base, crash context.CancelFunc) { crash() }, context.Canceled},
		"error": {func(context.Context) error { return broken }, func(*testing.T, *node.Base, context.CancelFunc) {}, broken},
		"crash in a stop": {until, func(t *testing.T, b *node.Base, crash context.CancelFunc) {
			_ = b.Shutdown(t.Context(), func(ctx context.Context) error { crash(); return until(ctx) })
		}, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBase(simnet.New(1), "data-1")
				assert.Empty(t, b.Address())
				ctx, crash := context.WithCancel(t.Context())
				defer crash()
				ran := run(ctx, b, c.loop)
				<-b.Started()
				assert.Equal(t, "data-1:1", b.Address())
				c.end(t, b, crash)
				assert.ErrorIs(t, <-ran, c.want)
				assert.NoError(t, b.Shutdown(t.Context(), nil), "there is nothing left to stop")
				assert.ErrorContains(t, <-run(t.Context(), b, until), "twice")
			})
		})
	}
}

func TestRun_ReturnsWhyItCannotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(1)
		first := newBase(network, "data-1")
		ctx, crash := context.WithCancel(t.Context())
		ran := run(ctx, first, until)
		<-first.Started()
		assert.ErrorContains(t, <-run(t.Context(), newBase(network, "data-1"), until), "listen on data-1:1")
		crash()
		assert.ErrorIs(t, <-ran, context.Canceled)

		stopped := newBase(network, "data-2")
		require.NoError(t, stopped.Shutdown(t.Context(), nil))
		assert.NoError(t, <-run(t.Context(), stopped, until), "it was stopped before")

		broken := errors.New("no strategy")
		third := newBase(network, "data-3")
		err := third.Run(t.Context(), 0, func(string) (http.Handler, error) { return nil, broken }, until)
		assert.ErrorIs(t, err, broken)
	})
}

// A node without a leader logs that it waits; its loops go on after it has left.
func TestRunMember_LoopsOutliveTheMembership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBase(simnet.New(1), "data-1")
		looped := make(chan struct{})
		ran := run(t.Context(), b, func(ctx context.Context) error {
			return b.RunMember(ctx, func(ctx context.Context) { _ = until(ctx); close(looped) })
		})
		<-b.Started()
		waiting, end := context.WithTimeout(t.Context(), 20*time.Second)
		defer end()
		assert.ErrorIs(t, b.Register(waiting), context.DeadlineExceeded)
		assert.True(t, b.LeaderSilent())
		require.NoError(t, b.EndMembership(t.Context()))
		synctest.Wait()
		select {
		case <-looped:
			t.Error("the loop has ended with the membership")
		default:
		}
		require.NoError(t, b.Shutdown(t.Context(), func(context.Context) error { return nil }))
		require.NoError(t, <-ran)
		<-looped
	})
}

// A path without an entry in the table of rights would be open to each token.
func TestRun_PathWithoutARightEndsTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBase(simnet.New(1), "data-1")
		err := b.Run(t.Context(), 0, func(string) (http.Handler, error) {
			r := b.Router(func() (bool, []string) { return true, nil }, b.Meta.Announced)
			r.HandleFunc("/v1/new", func(http.ResponseWriter, *http.Request) {}).Methods(http.MethodPost)
			return r, nil
		}, until)
		assert.ErrorContains(t, err, "POST /v1/new")
	})
}

// Each act leaves a line in the log with the name of the token, and without the token.
func TestRouter_LogsActs(t *testing.T) {
	var out bytes.Buffer
	c := config(simnet.New(1), "data-1")
	c.Token, c.Logger = "s3cret", hclog.New(&hclog.LoggerOptions{Output: &out})
	b := node.New(c.WithDefaults(), conclave.RoleData)
	defer b.Peers.Close()
	r := b.Router(func() (bool, []string) { return true, nil }, b.Meta.Announced)
	ask := func(method string, token string) {
		q := httptest.NewRequest(method, "http://127.0.0.1/v1/stopping", nil)
		q.RemoteAddr = "192.0.2.1:99"
		wire.SetToken(q.Header, token)
		r.ServeHTTP(httptest.NewRecorder(), q)
	}
	ask(http.MethodGet, "s3cret")
	ask(http.MethodDelete, "guess")
	assert.Empty(t, out.String(), "nothing was changed")
	ask(http.MethodDelete, "s3cret")
	assert.Contains(t, out.String(), `audit: act: identity=operator right=operator request="DELETE /v1/stopping" from=192.0.2.1:99 status=200`)
	assert.NotContains(t, out.String(), "s3cret")
}
