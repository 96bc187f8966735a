package join

import "sync"

// Map calls f for all items at once, and returns what it returned for each, in their order.
func Map[T, R any](items []T, f func(T) R) []R {
	out := make([]R, len(items))
	var all sync.WaitGroup
	for i, item := range items {
		all.Go(func() { out[i] = f(item) })
	}
	all.Wait()
	return out
}
