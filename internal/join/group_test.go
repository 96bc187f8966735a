package join_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"conclave/internal/join"
)

func TestMap_IsInTheOrderOfTheItemsAndAtOnce(t *testing.T) {
	last := make(chan struct{})
	assert.Equal(t, []int{1, 4, 9}, join.Map([]int{1, 2, 3}, func(n int) int {
		if n == 3 {
			close(last)
		}
		<-last
		return n * n
	}))
	assert.Empty(t, join.Map(nil, func(int) int { return 1 }))
}

func TestGroup_ClosesAfterAllHaveEnded(t *testing.T) {
	var g join.Group
	ended, end := 0, make(chan struct{})
	g.Go(func() { <-end; ended++ })
	assert.True(t, g.Begin())
	go func() { close(end); g.Done() }()
	g.Close()
	assert.Equal(t, 1, ended)
	assert.False(t, g.Begin(), "the end has begun")
	g.Go(func() { ended++ })
	g.Close()
	assert.Equal(t, 1, ended)
}
