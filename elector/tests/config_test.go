package elector_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
)

func TestNew_DrawsTheIncarnation(t *testing.T) {
	cfg := elector.Config{ID: conclave.NodeID{Name: "a"}, Strategy: strategy{&store{}}}
	one, err := elector.New(cfg)
	require.NoError(t, err)
	two, err := elector.New(cfg)
	require.NoError(t, err)
	assert.NotEmpty(t, one.ID().Incarnation)
	assert.NotEqual(t, one.ID(), two.ID())
	cfg.ID.Incarnation = "1"
	three, err := elector.New(cfg)
	require.NoError(t, err)
	assert.Equal(t, cfg.ID, three.ID())
}

func TestNew_ErrorNamesFieldAndConstraint(t *testing.T) {
	good := elector.Config{ID: other, Strategy: strategy{&store{}}}
	require.NoError(t, good.Validate())
	for name, test := range map[string]struct {
		change func(*elector.Config)
		names  []string
	}{
		"no name":           {func(c *elector.Config) { c.ID.Name = "" }, []string{"ID"}},
		"no strategy":       {func(c *elector.Config) { c.Strategy = nil }, []string{"Strategy"}},
		"lease too short":   {func(c *elector.Config) { c.Lease = time.Millisecond }, []string{"Lease"}},
		"beat too long":     {func(c *elector.Config) { c.Lease, c.Beat = 3*time.Second, 2*time.Second }, []string{"Beat 2s", "Lease 3s"}},
		"beat negative":     {func(c *elector.Config) { c.Beat = -1 }, []string{"Beat", "Lease"}},
		"margin too wide":   {func(c *elector.Config) { c.Margin = 2 * time.Second }, []string{"Margin 2s", "Lease 3s"}},
		"polled too often":  {func(c *elector.Config) { c.Poll = time.Millisecond }, []string{"Poll 1ms", "Beat 1s"}},
		"polled too seldom": {func(c *elector.Config) { c.Poll = time.Minute }, []string{"Poll 1m0s", "Lease 3s"}},
		"read too often":    {func(c *elector.Config) { c.SafetyRead = time.Millisecond }, []string{"SafetyRead 1ms", "Beat 1s"}},
		"no such stop":      {func(c *elector.Config) { c.HandOver = -2 }, []string{"HandOver -2ns", "NoHandOver"}},
		"back-off negative": {func(c *elector.Config) { c.Backoff = -1 }, []string{"Backoff -1ns"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			test.change(&cfg)
			_, err := elector.New(cfg)
			for _, part := range test.names {
				assert.ErrorContains(t, err, part)
			}
		})
	}
}
