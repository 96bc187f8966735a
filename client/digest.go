package client

import (
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// digests are the publications that a link may name by a digest, and in which
// version. The session then finds the values at the nodes that have them, or asks
// for them, so that a replay does not send again what the cluster has
// (docs/adr/0077). Each is named once on a link; after that it is sent with its
// values.
type digests map[*Publication]int64

// digestLeast is the size in bytes of the smallest values that are named by a
// digest: for smaller ones the search costs more than the bytes.
const digestLeast = 256

// digestShare is the part of its values that a digest counts for in a message and
// in the window, in addition to itself, because the session has to fetch them. A
// message of 64 KiB then names 1 MiB of values at most.
const digestShare = 16

// note makes a publication one that may be named, if data has had its present
// version, and it is large enough. Data may not have any other version: it is
// sent as a whole, in its order among the others.
func (d digests) note(p *Publication) {
	if !p.withdrawn && p.stored.version >= p.version && p.size() >= digestLeast {
		d[p] = p.version
	}
}

// add adds a publication to a message, as a digest or with its values, and returns
// the size in bytes to count for it. The lock is held.
func (l *link) add(m *wirev1.ClientMessage, p *Publication) int {
	version, named := l.digests[p]
	delete(l.digests, p)
	if !named || version != p.version {
		m.Publishers = append(m.Publishers, p.message())
		if p.accepted.version >= p.version {
			l.client.resent += p.bytes()
		}
		return p.size()
	}
	l.client.named += p.bytes()
	m.Digests = append(m.Digests, wire.PublisherDigestOf(p.message()))
	return 64 + len(p.key) + p.size()/digestShare
}

// wanted sends a publication with its values, because the session has not found
// them. A newer version is queued already. The lock is held.
func (l *link) wanted(p *Publication, version int64) {
	if version == p.version && l.owed[p] {
		l.queue(p)
		l.ready.Set()
	}
}

// Replayed returns of how many bytes of values the client has sent only a digest,
// because a session that it came to might find them, and how many it has sent that
// some session had accepted before. Values that a session did not find count in
// both.
func (c *Client) Replayed() (named, resent int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.named, c.resent
}

// bytes returns the size of the values in bytes.
func (p *Publication) bytes() (n int64) {
	for _, v := range p.values {
		n += int64(len(v))
	}
	return n
}
