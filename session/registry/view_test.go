package registry

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

// publishers returns all registrations, in no order.
func publishers(r *Registry) (out []Publisher) {
	for slot := range r.Slots() {
		out = append(out, publishersIn(r, slot)...)
	}
	return out
}

// publishersIn returns the registrations in a slot, in no order.
func publishersIn(r *Registry, slot int) []Publisher {
	var ids []string
	for _, k := range r.PublisherKeys(slot, Filter{}) {
		ids = append(ids, k.ID)
	}
	return r.Publishers(ids)
}

// What is listed is looked up again: it may have ended since its key was read.
func TestView_WhatHasEndedIsLeftOut(t *testing.T) {
	r, now := New(testGrace, 0, nil), time.Now()
	r.Resize(2, now)
	o := active(&Owner{Client: "c", Name: "name", Number: 7}, now)
	_, err := put(r, o, conclave.Publisher{ID: "p", Data: dataOf("x"), Version: 1, Values: []string{"v"}}, now)
	require.NoError(t, err)
	for _, id := range []string{"s", "t"} {
		_, err = r.Subscribe(o, &wirev1.Subscription{Id: id, DataInfoId: keyOf("x")}, now)
		require.NoError(t, err)
	}
	require.Len(t, publishers(r), 1)
	assert.Equal(t, "name", publishers(r)[0].Client)
	assert.Empty(t, r.Publishers([]string{"unknown"}))

	var keys []SubscriberKey
	for slot := range r.Slots() {
		assert.Empty(t, r.SubscriberKeys(slot, Filter{DataID: "y"}))
		assert.Empty(t, r.PublisherKeys(slot, Filter{DataID: "y"}))
		assert.Equal(t, len(r.SubscriberKeys(slot, Filter{})), len(r.SubscriberKeys(slot, Filter{DataID: dataOf("x").DataID})))
		keys = append(keys, r.SubscriberKeys(slot, Filter{})...)
	}
	require.Len(t, keys, 2)
	assert.NotEqual(t, keys[0].Text(), keys[1].Text())
	assert.Len(t, r.Subscribers(keys, false, now), 2)
	r.Unsubscribe(o, "s")
	rows := r.Subscribers(keys, false, now)
	require.Len(t, rows, 1)
	assert.Equal(t, "t", rows[0].ID)
}

// The last versions that were pushed under a name are remembered, each with how many
// subscribers were given it.
func TestView_LastPushesAreRemembered(t *testing.T) {
	r, now := New(testGrace, 0, nil), time.Now()
	r.Resize(1, now)
	tp := r.topic(dataOf("x"), now)
	for version := range int64(20) {
		d := newDatum(keyOf("x"), version+1, list.New([]string{"v"}, nil, 0))
		tp.pushed(d, now.Add(time.Duration(version)*time.Second))
		tp.pushed(d, now.Add(time.Minute))
	}
	require.Len(t, tp.pushes, pushesKept)
	for i, p := range tp.pushes {
		assert.Equal(t, Pushed{AtMs: now.UnixMilli() + int64(12+i)*1000, Version: int64(13 + i), Values: 1, Subscribers: 2}, p)
	}
}
