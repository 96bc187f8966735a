package zklatch

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Lock is what a MultiLock needs of each of its locks. Mutex, Semaphore, SingleNode and
// MultiLock have it.
type Lock interface {
	Acquire(ctx context.Context) error
	Release(ctx context.Context) error
}

// MultiLock is several locks as one: all are held, or none (InterProcessMultiLock of
// Curator). Handles that have locks in common must name them in the same order;
// otherwise two can wait for each other for ever.
type MultiLock struct{ locks []Lock }

// NewMultiLock returns a lock of all these locks.
func NewMultiLock(locks ...Lock) *MultiLock { return &MultiLock{slices.Clone(locks)} }

// Acquire acquires the locks in their order. If one fails, those before it are released
// in reverse order, for which they get up to a second, also after ctx has ended, and the
// errors are returned.
func (m *MultiLock) Acquire(ctx context.Context) error {
	for i, l := range m.locks {
		if err := l.Acquire(ctx); err != nil {
			last, cancel := lastRequests(ctx)
			defer cancel()
			if failed := release(last, m.locks[:i]); failed != nil {
				return errors.Join(err, failed)
			}
			return err
		}
	}
	return nil
}

// TryAcquire is Acquire with a time limit for all locks together. It returns false if
// one was not acquired in time; none is held then. If one of the others could not be
// released, it returns both errors.
func (m *MultiLock) TryAcquire(ctx context.Context, limit time.Duration) (bool, error) {
	return within(ctx, limit, m.Acquire)
}

// Release releases the locks in reverse order, all of them even if some fail, and
// returns the errors.
func (m *MultiLock) Release(ctx context.Context) error { return release(ctx, m.locks) }

func release(ctx context.Context, locks []Lock) error {
	var errs []error
	for _, l := range slices.Backward(locks) {
		errs = append(errs, l.Release(ctx))
	}
	return errors.Join(errs...)
}
