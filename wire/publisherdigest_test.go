package wire_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/protobuf/proto"

	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// A digest fits the values of its own registration and version only.
func TestDigestFits_OnlyWhatItNames(t *testing.T) {
	p := &wirev1.Publisher{Id: "r1", DataInfoId: "svc#@#I#@#G", Version: 7, Values: []string{"ab", "c"}}
	d := wire.PublisherDigestOf(p)
	assert.Len(t, d.GetHash(), 16)
	assert.True(t, wire.DigestFits(d, []string{"ab", "c"}))

	for _, values := range [][]string{nil, {"abc"}, {"a", "bc"}, {"c", "ab"}, {"ab", "c", ""}} {
		assert.False(t, wire.DigestFits(d, values), "%q", values)
	}
	for name, change := range map[string]func(*wirev1.PublisherDigest){
		"id":      func(d *wirev1.PublisherDigest) { d.Id = "r2" },
		"dataId":  func(d *wirev1.PublisherDigest) { d.DataInfoId = "other#@#I#@#G" },
		"version": func(d *wirev1.PublisherDigest) { d.Version = 8 },
		"bit":     func(d *wirev1.PublisherDigest) { d.Hash[15] ^= 1 },
		"short":   func(d *wirev1.PublisherDigest) { d.Hash = d.Hash[:15] },
		"none":    func(d *wirev1.PublisherDigest) { d.Hash = nil },
	} {
		other := proto.CloneOf(d)
		change(other)
		assert.False(t, wire.DigestFits(other, []string{"ab", "c"}), name)
	}
}

// Digests from outside have the limits of registrations.
func TestCheckDigest_Limits(t *testing.T) {
	d := wire.PublisherDigestOf(&wirev1.Publisher{Id: "r1", DataInfoId: "svc#@#I#@#G", Version: 7, Values: []string{"ab"}})
	assert.NoError(t, wire.CheckDigest(d))
	for name, change := range map[string]func(*wirev1.PublisherDigest){
		"id":      func(d *wirev1.PublisherDigest) { d.Id = "" },
		"dataId":  func(d *wirev1.PublisherDigest) { d.DataInfoId = "svc" },
		"version": func(d *wirev1.PublisherDigest) { d.Version = 0 },
		"hash":    func(d *wirev1.PublisherDigest) { d.Hash = make([]byte, 1<<20) },
	} {
		other := proto.CloneOf(d)
		change(other)
		assert.Equal(t, wire.CodeBadRequest, wire.CodeOf(wire.CheckDigest(other)), name)
	}
}
