package elector_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave/elector"
)

func TestConfirmLeading_PromisedTermIsNotLedWhenWinArrivesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{block: make(chan struct{})}
		e, _ := run(t, s, "a", func(c *elector.Config) {
			c.Lead = func(ctx context.Context, term elector.Term) error {
				assert.Greater(t, term.Number, uint64(1), "the promised term is led")
				<-ctx.Done()
				return nil
			}
		})
		synctest.Wait() // the round that wins term 1 is in progress
		assert.False(t, e.ConfirmLeading(1, "lock"), "term 1 is not led yet")
		close(s.block)
		synctest.Wait()
		term, leading := e.Leading()
		assert.True(t, leading)
		assert.Equal(t, uint64(2), term.Number, "the node won the next term")
	})
}

func TestConfirmLeading_RenewalAfterPromiseIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		e, _ := run(t, s, "a")
		synctest.Wait()
		s.mu.Lock()
		s.block = make(chan struct{})
		s.mu.Unlock()
		time.Sleep(1500 * time.Millisecond) // the renewal of term 1 is in progress
		assert.True(t, e.ConfirmLeading(1, "lock"))
		assert.False(t, e.ConfirmLeading(2, "lock"), "the promise covers term 2 and all lower terms")
		close(s.block)
		synctest.Wait()
		for range 100 {
			time.Sleep(20 * time.Millisecond)
			if term, leading := e.Leading(); leading {
				assert.Equal(t, uint64(3), term.Number)
			}
		}
	})
}
