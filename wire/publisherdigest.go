package wire

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"

	wirev1 "conclave/wire/v1"
)

// valueHashBytes is the length of the hash in a PublisherDigest. With 128 bits a
// search for other values that have it takes 2^128 attempts; see docs/adr/0077.
const valueHashBytes = 16

// PublisherDigestOf returns the digest of a registration that is not withdrawn.
func PublisherDigestOf(p *wirev1.Publisher) *wirev1.PublisherDigest {
	return &wirev1.PublisherDigest{
		Id: p.GetId(), DataInfoId: p.GetDataInfoId(), Version: p.GetVersion(),
		Hash: valueHash(p.GetId(), p.GetDataInfoId(), p.GetVersion(), p.GetValues()),
	}
}

// CheckDigest returns which limit a digest from outside violates, or nil: a
// registration's id, name or version, as CheckPublisher, or the length of the hash.
func CheckDigest(d *wirev1.PublisherDigest) error {
	if n := len(d.GetHash()); n != valueHashBytes {
		return Errorf(CodeBadRequest, "the hash of registration %.20q has %d bytes, want %d", d.GetId(), n, valueHashBytes)
	}
	return CheckPublisher(&wirev1.Publisher{Id: d.GetId(), DataInfoId: d.GetDataInfoId(), Version: d.GetVersion()})
}

// DigestFits reports whether these are the values of the registration that the
// digest names.
func DigestFits(d *wirev1.PublisherDigest, values []string) bool {
	return subtle.ConstantTimeCompare(d.GetHash(), valueHash(d.GetId(), d.GetDataInfoId(), d.GetVersion(), values)) == 1
}

// valueHash returns a hash of a registration. It covers what the registration is,
// not only its values: a hash that was seen for one registration or version is of
// no use for another one. Each string is preceded by its length.
func valueHash(id, data string, version int64, values []string) []byte {
	size := 64 + len(id) + len(data)
	for _, v := range values {
		size += binary.MaxVarintLen32 + len(v)
	}
	b := make([]byte, 0, size)
	add := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	add(id)
	add(data)
	b = binary.AppendUvarint(b, uint64(version))
	for _, v := range values {
		add(v)
	}
	sum := sha256.Sum256(b)
	return sum[:valueHashBytes]
}
