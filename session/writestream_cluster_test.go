package session_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	wirev1 "conclave/wire/v1"
)

// All writes to a data node are on one stream. Another one is opened for another table,
// whose epoch is compared then, and after an error.
func TestWrites_AreOnOneStream(t *testing.T) {
	bubble(t, 0, 1, func(t *testing.T, c *cluster) {
		node := c.fakeData("data-1")
		c.settle()
		x := c.client("writer")
		store := func(from int) {
			for i := range 8 {
				c.published(x, fmt.Sprint("svc-", from+i), "a")
			}
		}
		store(0)
		assert.Equal(t, 1, node.streams())
		table := c.meta.view.TableEpoch()
		c.fakeData("data-2")
		c.eventually("it follows slots", func() bool { return table.Less(c.meta.view.TableEpoch()) })
		store(8)
		again := node.streams()
		assert.Greater(t, again, 1)
		store(16)
		assert.Equal(t, again, node.streams())
		once := errors.New("once")
		node.set(func() {
			node.check = func(*wirev1.WriteRequest) error {
				err := once
				once = nil
				return err
			}
		})
		store(24)
		assert.Equal(t, again+1, node.streams())
	})
}

// A data node of a build without streams is sent a request for each write, and is not asked
// again for a stream.
func TestWrites_OlderNodeHasRequests(t *testing.T) {
	bubble(t, 0, 1, func(t *testing.T, c *cluster) {
		node := c.fakeData("data-1")
		node.set(func() { node.older = true })
		c.settle()
		x := c.client("writer")
		for i := range 8 {
			c.published(x, fmt.Sprint("svc-", i), "a")
		}
		assert.Equal(t, 1, node.streams())
	})
}

// A write that is not answered ends the stream in time, also after other answers, and is
// made again on another one; and it does not hold up the session's end.
func TestWrites_EndWithoutAnAnswer(t *testing.T) {
	bubble(t, 0, 1, func(t *testing.T, c *cluster) {
		node := c.fakeData("data-1")
		c.settle()
		x := c.client("writer")
		c.published(x, "svc-0", "a")
		hold := func() (release func()) {
			held := make(chan struct{})
			node.set(func() { node.held = held })
			return func() {
				node.set(func() { node.held = nil })
				close(held)
			}
		}
		release := hold()
		p := c.publish(x, "svc-1", "a")
		began := time.Now()
		c.eventually("it is written again", func() bool { return len(node.written(p.ID())) > 1 })
		assert.LessOrEqual(t, time.Since(began), 5*time.Second)
		assert.Equal(t, 2, node.streams())
		release()
		c.eventually("it is stored", func() bool { return stored(p) })
		defer hold()() // the cluster's end comes before
		c.publish(x, "svc-2", "a")
		c.end()
	})
}
