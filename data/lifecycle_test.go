package data_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/data"
	"conclave/slot"
	"conclave/testbed/simulated/simnet"
	"conclave/wire"
)

func (n *node) ended(t *testing.T) error {
	t.Helper()
	select {
	case err := <-n.err:
		n.err <- err
		return err
	case <-time.After(time.Minute):
		require.Fail(t, "the node still runs")
		return nil
	}
}

// A data node that is started together with its meta nodes waits for them, logs
// that, and is not ready; the original aborts.
func TestStart_WaitsForMetas(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.fakeMeta.stop()
		cfg := data.DefaultConfig()
		cfg.Node = conclave.NodeID{Name: "data-1", Incarnation: "i1"}
		cfg.Listen, cfg.Metas, cfg.Insecure, cfg.Network = "data-1:9622", []string{c.address}, true, c.net.Host("data-1")
		s, err := data.New(cfg)
		require.NoError(t, err)
		n := &node{Server: s, c: c, id: cfg.Node, err: make(chan error, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		defer func() { cancel(); assert.ErrorIs(t, n.ended(t), context.Canceled) }()
		go func() { n.err <- s.Run(ctx) }()
		<-s.Started()
		time.Sleep(10 * time.Minute)
		assert.Equal(t, http.StatusOK, httpStatus(t, c, n, "/healthz"))
		assert.Equal(t, http.StatusServiceUnavailable, httpStatus(t, c, n, "/readyz"))
		c.replaceMeta()
		eventually(t, 5*time.Second, "ready", func() bool { return httpStatus(t, c, n, "/readyz") == http.StatusOK })
	})
}

func TestStop_WithoutSuccessorEndsAtDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s1 := c.session("session-1", true)
		a, _ := serving(t, c)
		c.set(func(*wire.State, conclave.Epoch) { c.admits = false })
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- a.Shutdown(ctx) }()
		time.Sleep(29 * time.Second)
		v, ok := s1.read(dataIDIn(0, 1))
		assert.True(t, ok, "it serves while it waits")
		assert.Empty(t, v)
		err := <-done
		assert.Equal(t, wire.CodeNoSuccessor, wire.CodeOf(err), "%v", err)
		assert.NoError(t, a.ended(t))
	})
}

// A follower that is asked to stop does not leave while its leader is dead,
// because it may have the last copy. If it is granted the slot it leads it,
// hands it on, and ends.
func TestStop_FollowerOfDeadLeaderHandsSlotOn(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, b := serving(t, c)
		eventually(t, 5*time.Second, "b has a copy", func() bool { return b.state(0) == slot.CaughtUp })
		c.evict(a.id.Name)
		done := make(chan error, 1)
		go func() { done <- b.Shutdown(t.Context()) }()
		never(t, 2*time.Second, "it left", func() bool { return !c.members().Has(b.id) })
		c.crash(0, b.id)
		eventually(t, time.Second, "b serves", func() bool { return b.state(0) == slot.Serving })
		c.settle(0)
		d := c.data("data-3")
		c.prepare(0, d.id)
		eventually(t, time.Second, "d has caught up", func() bool { return d.state(0) == slot.CaughtUp })
		assert.True(t, c.members().Has(b.id), "it waits for its successor")
		c.switchTo(0, d.id)
		eventually(t, time.Second, "d serves", func() bool { return d.state(0) == slot.Serving })
		c.settle(0)
		require.NoError(t, <-done)
		assert.NoError(t, b.ended(t))
	})
}

func TestStop_WithoutLeaderEndsAtDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, _ := serving(t, c)
		c.fakeMeta.stop()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		start := time.Now()
		assert.ErrorIs(t, a.Shutdown(ctx), context.DeadlineExceeded)
		assert.NoError(t, a.ended(t))
		assert.GreaterOrEqual(t, time.Since(start), 30*time.Second)
	})
}

// A node that never registered has nothing to hand over.
func TestStop_DuringStartIsImmediate(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.fakeMeta.stop()
		cfg := data.DefaultConfig()
		cfg.Node = conclave.NodeID{Name: "data-1", Incarnation: "i1"}
		cfg.Listen, cfg.Metas, cfg.Insecure, cfg.Network = "data-1:9622", []string{c.address}, true, c.net.Host("data-1")
		s, err := data.New(cfg)
		require.NoError(t, err)
		ran := make(chan error, 1)
		go func() { ran <- s.Run(t.Context()) }()
		<-s.Started()
		time.Sleep(time.Second)
		start := time.Now()
		require.NoError(t, s.Shutdown(t.Context()))
		require.NoError(t, <-ran)
		assert.Less(t, time.Since(start), time.Second)
	})
}

// A new meta leader seals the state before it makes the first table.
func TestSlots_EmptyTableChangesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		n := c.data("data-1")
		c.set(func(s *wire.State, e conclave.Epoch) { s.Table = slot.Table{Epoch: e} })
		time.Sleep(time.Second)
		c.make(4)
		eventually(t, time.Second, "serving", func() bool { return n.state(3) == slot.Serving })
	})
}

// The whole cluster stops, and no node waits for another.
func TestStop_OfClusterHandsNothingOver(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, _ := serving(t, c)
		c.fakeMeta.stop()
		tr := &http.Transport{DialContext: c.net.Host("curl").DialContext, DisableKeepAlives: true}
		res, err := (&http.Client{Transport: tr}).Post("http://"+a.Address()+"/v1/stopping", "", strings.NewReader(`{"incarnation": "another"}`))
		require.NoError(t, err)
		res.Body.Close()
		assert.Equal(t, http.StatusConflict, res.StatusCode)
		res, err = (&http.Client{Transport: tr}).Post("http://"+a.Address()+"/v1/stopping", "", strings.NewReader(`{"incarnation": "`+a.id.Incarnation+`"}`))
		require.NoError(t, err)
		res.Body.Close()
		assert.Equal(t, http.StatusOK, res.StatusCode)
		start := time.Now()
		require.NoError(t, a.Shutdown(t.Context()))
		require.NoError(t, a.ended(t))
		assert.Less(t, time.Since(start), time.Second)
	})
}

// An announcement that is an hour old does not count: the stopping node hands
// its slots over.
func TestStop_AnnouncementExpires(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, _ := serving(t, c)
		c.set(func(s *wire.State, e conclave.Epoch) {
			s.Switches = wire.Switches{Epoch: e, List: []wire.Switch{{Key: wire.SwitchStopping, Value: "60000", Version: 1}}}
			c.admits = false
		})
		tr := &http.Transport{DialContext: c.net.Host("curl").DialContext, DisableKeepAlives: true}
		res, err := (&http.Client{Transport: tr}).Post("http://"+a.Address()+"/v1/stopping", "", strings.NewReader(`{"incarnation": "`+a.id.Incarnation+`"}`))
		require.NoError(t, err)
		res.Body.Close()
		require.Equal(t, http.StatusOK, res.StatusCode)
		time.Sleep(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		assert.Equal(t, wire.CodeNoSuccessor, wire.CodeOf(a.Shutdown(ctx)), "it asked to be drained")
		assert.NoError(t, a.ended(t))
	})
}

// The meta leader's record reaches a node that is already waiting for a
// successor.
func TestStop_AnnouncementCutsDrainShort(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, _ := serving(t, c)
		c.set(func(*wire.State, conclave.Epoch) { c.admits = false })
		done := make(chan error, 1)
		go func() { done <- a.Shutdown(t.Context()) }()
		time.Sleep(3 * time.Second)
		c.set(func(s *wire.State, e conclave.Epoch) {
			s.Switches = wire.Switches{Epoch: e, List: []wire.Switch{{Key: wire.SwitchStopping, Value: "60000", Version: 1}}}
		})
		require.NoError(t, <-done)
		require.NoError(t, a.ended(t))
	})
}

func TestRun_CancelledContextIsCrash(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, _ := serving(t, c)
		a.kill()
		assert.ErrorIs(t, a.ended(t), context.Canceled)
		assert.True(t, c.members().Has(a.id), "it notified no other node")
		assert.NoError(t, a.Shutdown(t.Context()), "there is nothing left to stop")
		assert.ErrorContains(t, a.Run(t.Context()), "twice")
	})
}

func TestShutdown_BeforeRunEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := data.DefaultConfig()
		cfg.Node = conclave.NodeID{Name: "data-1", Incarnation: "i1"}
		cfg.Listen, cfg.Metas, cfg.Insecure, cfg.Network = "data-1:0", []string{"meta-1:9615"}, true, simnet.New(1).Host("data-1")
		s, err := data.New(cfg)
		require.NoError(t, err)
		require.NoError(t, s.Shutdown(t.Context()))
		require.NoError(t, s.Run(t.Context()))
	})
}

func TestConfig_InvalidFieldIsNamed(t *testing.T) {
	for want, change := range map[string]func(*data.Config){
		"node name":     func(c *data.Config) { c.Node.Name = "-" },
		"incarnation":   func(c *data.Config) { c.Node.Incarnation = "" },
		"no meta":       func(c *data.Config) { c.Metas = nil },
		"SessionGrace":  func(c *data.Config) { c.SessionGrace = -1 },
		"RepairAll":     func(c *data.Config) { c.RepairAll = time.Second },
		"without a tok": func(c *data.Config) { c.Listen = "0.0.0.0:1" },
	} {
		c := data.DefaultConfig()
		c.Node = conclave.NodeID{Name: "data-1", Incarnation: "i1"}
		c.Listen, c.Metas = "127.0.0.1:0", []string{"x:1"}
		change(&c)
		_, err := data.New(c)
		assert.ErrorContains(t, err, want)
	}
}

func TestAdmin_ShowsSlotsAndData(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s1 := c.session("session-1", true)
		a, b := serving(t, c)
		s1.store(pub(idIn("x", 0, 1), "r1", 1, "v1"))
		s1.store(pub(idIn("y", 0, 1), "r2", 1, "v2"))
		var data []data.DatumInfo
		assert.Equal(t, http.StatusOK, get(t, c, a, "/v1/datums?prefix=x", &data))
		require.Len(t, data, 1)
		assert.Equal(t, []string{"v1"}, data[0].Values)
		assert.Equal(t, "x0", data[0].DataID)
		for match, n := range map[string]int{"x0": 1, "v1": 1, "DEFAULT_GROUP": 1, "nothing": 0} {
			assert.Equal(t, http.StatusOK, get(t, c, a, "/v1/datums?prefix=x&match="+match, &data), match)
			assert.Len(t, data, n, match)
		}
		short := []map[string]any{}
		assert.Equal(t, http.StatusOK, get(t, c, a, "/v1/datums?prefix=x&values=false", &short))
		require.Len(t, short, 1)
		assert.NotContains(t, short[0], "values")
		assert.EqualValues(t, 1, short[0]["publishers"])
		assert.Equal(t, http.StatusOK, get(t, c, a, "/v1/datums?limit=1", &data))
		require.Len(t, data, 1)
		assert.Equal(t, http.StatusOK, get(t, c, a, "/v1/datums?limit=1&after="+url.QueryEscape(data[0].String()), &data))
		require.Len(t, data, 1)
		assert.Equal(t, "y0", data[0].DataID)
		var slots struct{ Slots []struct{ ID int } }
		assert.Equal(t, http.StatusOK, get(t, c, a, "/v1/slots?limit=1", &slots))
		require.Len(t, slots.Slots, 1)
		assert.Equal(t, http.StatusOK, get(t, c, a, "/v1/slots?limit=1&after=0", &slots))
		assert.Empty(t, slots.Slots, "there is one slot")
		assert.Equal(t, http.StatusBadRequest, httpStatus(t, c, a, "/v1/slots?after=x"))
		assert.Equal(t, http.StatusBadRequest, httpStatus(t, c, a, "/v1/datums?limit=x"))
		assert.Equal(t, http.StatusOK, get(t, c, b, "/v1/datums", &data))
		assert.Empty(t, data, "only what is served")
		s := info(a, 0)
		assert.Equal(t, string(slot.Serving), s.State)
		assert.Equal(t, 2, s.Publishers)
		assert.Equal(t, []conclave.NodeID{s1.id}, s.Owners)
		assert.Equal(t, http.StatusOK, httpStatus(t, c, a, "/metrics"))
		assert.Contains(t, events(a), "slot.serving")
	})
}

// A node that stays on the blacklist leads nothing, so it repeats a refused
// request to leave it.
func TestStart_RetriesRefusedRestore(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.refuses.Store(2)
		n := c.data("data-1")
		eventually(t, 5*time.Second, "ready", func() bool { return httpStatus(t, c, n, "/readyz") == http.StatusOK })
		assert.Negative(t, c.refuses.Load(), "asked a third time")
	})
}
