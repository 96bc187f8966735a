package rowlock

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// EventType is what happened to a value.
type EventType string

// The events of subscriptions.
const (
	Added   EventType = "added"
	Updated EventType = "updated"
	Removed EventType = "removed"
)

// Event is one difference between two reads of the values.
type Event struct {
	Type       EventType
	Key, Value string // for Removed the last value that was seen
}

// listener receives the events of the keys with a prefix.
type listener struct {
	prefix string
	notify func(Event)
}

// Put stores an ephemeral value under a key: it lives until this process stops refreshing
// it.
func (r *Registry) Put(ctx context.Context, key, value string) error {
	if _, err := r.cfg.DB.Exec(ctx, statement("article_data_put"), key, value, r.now()); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	var id int64
	if err := r.cfg.DB.QueryRow(ctx, statement("article_data_find"), []any{key}, &id); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ephemeral[key] = &entry{id: id, acquired: true}
	return nil
}

// Subscribe registers notify for the events of the keys with a prefix. It is called by
// one goroutine, for one event at a time. The values that exist at the first read are
// Added.
func (r *Registry) Subscribe(prefix string, notify func(Event)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listeners = append(r.listeners, listener{prefix, notify})
}

// refreshData is the task of the ephemeral values.
func (r *Registry) refreshData(ctx context.Context) error {
	return r.refresh(ctx, r.ephemeral, statement("article_data_refresh"), statement("article_data_clean"))
}

// datum is a value as the subscriptions see it.
type datum struct {
	value   string
	updated time.Time
}

// runSubscriptions reads all values at each interval, and notifies the listeners of
// the differences.
func (r *Registry) runSubscriptions(ctx context.Context) {
	seen := map[string]datum{}
	r.every(ctx, func(ctx context.Context) error {
		now := map[string]datum{}
		err := r.cfg.DB.Query(ctx, statement("article_data_list"), nil, func(scan func(...any) error) error {
			var key string
			var d datum
			err := scan(&key, &d.value, &d.updated)
			now[key] = d
			return err
		})
		if err != nil {
			return fmt.Errorf("read the values: %w", err)
		}
		r.notify(compare(seen, now))
		seen = now
		return nil
	})
}

// compare returns the differences between two reads, in the order of the keys. Several
// changes of one value in between give one event; a value that was added and removed in
// between gives none.
func compare(before, after map[string]datum) (events []Event) {
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		was, had := before[key]
		is, has := after[key]
		switch {
		case !had:
			events = append(events, Event{Added, key, is.value})
		case !has:
			events = append(events, Event{Removed, key, was.value})
		case !was.updated.Equal(is.updated):
			events = append(events, Event{Updated, key, is.value})
		}
	}
	return events
}

// notify calls the listeners, without mu, so that they may call the registry.
func (r *Registry) notify(events []Event) {
	r.mu.Lock()
	listeners := slices.Clone(r.listeners)
	r.mu.Unlock()
	for _, event := range events {
		for _, l := range listeners {
			if strings.HasPrefix(event.Key, l.prefix) {
				l.notify(event)
			}
		}
	}
}
