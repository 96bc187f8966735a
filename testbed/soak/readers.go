package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"conclave"
)

// How readers behave.
const (
	readerDataIDs = 8
	readerWait    = 25 * time.Second // a reader without a list leaves then, and another one starts
	readerStays   = 2 * time.Second
)

// read runs one new subscriber after the other; their first lists are checked.
func (l *load) read(ctx context.Context, r *rand.Rand, host string) {
	for ctx.Err() == nil {
		name := fmt.Sprintf("%s.%d", host, l.names.Add(1))
		a, err := l.actor(host, name)
		if err != nil {
			l.fail(err)
			return
		}
		var data []string
		for _, i := range r.Perm(l.Services)[:min(readerDataIDs, l.Services)] {
			data = append(data, service(i))
		}
		came := make(chan struct{}, len(data))
		for _, d := range data {
			if err := l.watch(a, name, d, false, once(func() { came <- struct{}{} })); err != nil {
				l.fail(err)
				return
			}
		}
		waiting, cancel := context.WithTimeout(ctx, readerWait)
		if all(waiting, came, len(data)) {
			pause(ctx, r, readerStays)
		}
		cancel()
		a.die()
		l.oracle.Unsubscribed(name, data...)
	}
}

// all takes n tokens; false: ctx ended first.
func all(ctx context.Context, tokens <-chan struct{}, n int) bool {
	for range n {
		select {
		case <-tokens:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// once runs do at the first push.
func once(do func()) func(conclave.Datum) {
	var first sync.Once
	return func(conclave.Datum) { first.Do(do) }
}

// probe publishes with a new client, reads it with another, changes it, waits
// for the change to arrive, and withdraws it. It returns the stage at which it
// failed.
func (l *load) probe(ctx context.Context) (stage string, err error) {
	n := l.names.Add(1)
	id, data := fmt.Sprintf("w%d", n), fmt.Sprintf("probe-%d", n%8)
	writer, err := l.actor("probe-1", fmt.Sprintf("probe.%d", n))
	if err != nil {
		return "start a client", err
	}
	defer writer.die()
	reader, err := l.actor("probe-2", fmt.Sprintf("probe-reader.%d", n))
	if err != nil {
		return "start a client", err
	}
	defer reader.die()
	defer l.oracle.Unsubscribed(reader.Name(), data)
	defer l.oracle.Ending(id, true)

	value := l.oracle.Publishing(id, data)
	pub, err := writer.Publish(ctx, data, []string{value})
	if err != nil {
		return "publish", err
	}
	if err := pub.Stored(ctx); err != nil {
		return "publish: not stored", err
	}
	l.oracle.Stored(id)
	seen := make(chan conclave.Datum, 64)
	err = l.watch(reader, reader.Name(), data, false, func(d conclave.Datum) {
		select {
		case seen <- d:
		default:
		}
	})
	if err != nil {
		return "subscribe", err
	}
	if err := shows(ctx, seen, value); err != nil {
		return "get", err
	}
	value = l.oracle.Publishing(id, data)
	if err := pub.Update([]string{value}); err != nil {
		return "update", err
	}
	if err := pub.Stored(ctx); err != nil {
		return "update: not stored", err
	}
	l.oracle.Stored(id)
	if err := shows(ctx, seen, value); err != nil {
		return "subscribe: the update was not pushed", err
	}
	l.oracle.Ending(id, false)
	if err := pub.Withdraw(); err != nil {
		return "withdraw", err
	}
	if err := pub.Stored(ctx); err != nil {
		return "withdraw: not stored", err
	}
	l.oracle.Withdrawn(id)
	return "", nil
}

// shows waits until a push contains the value.
func shows(ctx context.Context, pushes <-chan conclave.Datum, value string) error {
	for {
		select {
		case d := <-pushes:
			if slices.Contains(d.Values, value) {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
