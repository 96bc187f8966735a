package node

import (
	"context"
	"sync"
	"time"

	"conclave/internal/sleep"
)

// RunMember is the run of a session or data node (see Run): it keeps the node
// registered with the meta leader, and runs its loops, until ctx ends. It
// returns an error if the leader refuses the node for good.
func (b *Base) RunMember(ctx context.Context, loops ...func(context.Context)) error {
	ctx, end := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	membership, leave := context.WithCancel(ctx)
	all.Go(func() {
		defer leave()
		select {
		case <-b.leaving:
		case <-ctx.Done():
		}
	})
	for _, run := range loops {
		all.Go(func() { run(ctx) })
	}
	err := b.Meta.Run(membership)
	close(b.left)
	if membership.Err() == nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// Register waits until the meta leader has written a member list with this
// node, however long that takes, and logs what it waits for. The error is that
// of ctx.
func (b *Base) Register(ctx context.Context) error {
	defer b.WarnWhileWaiting(ctx, "waiting for a meta leader to register with", "metas", b.config.Metas)()
	return b.Meta.WaitRegistered(ctx)
}

// Leave ends the membership and removes the node from the member list. The beats
// end first, because the next one would register the node again.
func (b *Base) Leave(ctx context.Context) error {
	if err := b.EndMembership(ctx); err != nil {
		return err
	}
	return b.Meta.Leave(ctx)
}

// EndMembership ends the beats to the leader, and returns when the last one has
// been sent. It may be called once.
func (b *Base) EndMembership(ctx context.Context) error {
	close(b.leaving)
	select {
	case <-b.left:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// LeaderSilent reports whether nothing has been received from a meta leader for a
// node lease.
func (b *Base) LeaderSilent() bool { return b.Meta.LostFor() > b.Meta.NodeLease() }

// WarnWhileWaiting logs a line every 5 s, so that an operator sees what the
// node waits for, until the returned function is called or ctx ends.
func (b *Base) WarnWhileWaiting(ctx context.Context, line string, args ...any) (done func()) {
	ctx, cancel := context.WithCancel(ctx)
	var warning sync.WaitGroup
	warning.Go(func() {
		for sleep.For(ctx, 5*time.Second) == nil {
			b.Log.Warn(line, args...)
		}
	})
	return func() {
		cancel()
		warning.Wait()
	}
}
