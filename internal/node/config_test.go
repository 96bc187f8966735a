package node_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave"
	"conclave/internal/node"
	"conclave/testbed/simulated/simnet"
)

func TestConfig_ZeroStandsForTheDefault(t *testing.T) {
	c := config(simnet.New(1), "data-1")
	assert.Error(t, c.Validate(conclave.RoleData), "without defaults it has no beat")
	c = c.WithDefaults()
	assert.NoError(t, c.Validate(conclave.RoleData))
	assert.Equal(t, time.Second, c.Beat)
	assert.Equal(t, "default", c.DataCenter)
	c.Metas = nil
	assert.NoError(t, c.Validate(conclave.RoleMeta), "a meta finds the others through the database")
}

func TestConfig_InvalidFieldIsNamed(t *testing.T) {
	for want, change := range map[string]func(*node.Config){
		"node name":            func(c *node.Config) { c.Node.Name = "-" },
		"no incarnation":       func(c *node.Config) { c.Node.Incarnation = "" },
		"without a token":      func(c *node.Config) { c.Insecure = false },
		"advertised address":   func(c *node.Config) { c.Advertise = "data-1:0" },
		"on every address":     func(c *node.Config) { c.Listen = "0.0.0.0:1" },
		"no meta node":         func(c *node.Config) { c.Metas = nil },
		`meta address "meta"`:  func(c *node.Config) { c.Metas = []string{"meta"} },
		`begins with "bound."`: func(c *node.Config) { c.Token = "bound.x" },
		"Beat -1s":             func(c *node.Config) { c.Beat = -time.Second },
	} {
		c := config(simnet.New(1), "data-1").WithDefaults()
		change(&c)
		assert.ErrorContains(t, c.Validate(conclave.RoleData), want)
	}
}
