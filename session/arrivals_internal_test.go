package session

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// Places are given in the order of the hellos, however long that takes, and a client
// that does not read that it has one keeps it no longer than any other.
func TestPlaces_AreGivenInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArrivals()
		a.free = 1
		has := func(p *place) bool {
			select {
			case <-p.given:
				return true
			default:
				return false
			}
		}
		first, second, gone, last := a.join(), a.join(), a.join(), a.join()
		assert.True(t, has(first))
		assert.False(t, has(second))
		a.quit(gone)
		first.leave()
		first.leave()
		assert.True(t, has(second))
		assert.False(t, has(last))
		time.Sleep(arrivalLimit)
		synctest.Wait()
		assert.True(t, has(last))
		a.quit(last)
		second.leave()
		assert.Equal(t, 1, a.free)
		assert.Empty(t, a.queue)
		time.Sleep(arrivalLimit)
		synctest.Wait()
		assert.Equal(t, 1, a.free)
	})
}
