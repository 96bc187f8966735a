package registry

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	wirev1 "conclave/wire/v1"
)

// publishers returns all registrations, in no order.
func publishers(r *Registry) (out []Publisher) {
	for slot := range r.Slots() {
		out = append(out, r.Publishers(r.PublisherIDs(slot, ""))...)
	}
	return out
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
		assert.Empty(t, r.SubscriberKeys(slot, "y"))
		assert.Empty(t, r.PublisherIDs(slot, "y"))
		assert.Equal(t, len(r.SubscriberKeys(slot, "")), len(r.SubscriberKeys(slot, dataOf("x").DataID)))
		keys = append(keys, r.SubscriberKeys(slot, "")...)
	}
	require.Len(t, keys, 2)
	assert.NotEqual(t, keys[0].Text(), keys[1].Text())
	assert.Len(t, r.Subscribers(keys, now), 2)
	r.Unsubscribe(o, "s")
	rows := r.Subscribers(keys, now)
	require.Len(t, rows, 1)
	assert.Equal(t, "t", rows[0].ID)
}
