package session

import (
	"time"

	"conclave"
	"conclave/session/registry"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// callLimit limits one Write or Fetch. It is longer than the three seconds after
// which the transport drops a silent connection: a call that takes longer is
// dead, and its slots have moved long before.
const callLimit = 4 * time.Second

// calls is what the loops of the data nodes share.
type calls struct {
	config   Config
	registry *locked
	clients  *clients
	nodes    *nodes
	data     func(address string) wirev1connect.DataServiceClient
}

// refused records that a node did not serve a slot at an epoch. If it reports a
// newer epoch that it leads at, that is adopted and tried at once; otherwise the
// slot pauses until the pause ends or the routes change.
func (c *calls) refused(n *dataNode, slot int, epoch conclave.Epoch, access wirev1.Access, theirs conclave.Epoch, p *backoff, now time.Time) {
	if access == wirev1.Access_ACCESS_MISMATCH && epoch.Less(theirs) {
		var changed bool
		c.registry.do(func(r *registry.Registry) { changed, _ = r.Adopt(slot, theirs, n.address, now) })
		if changed {
			c.nodes.reroute()
			return
		}
	}
	p.failed(slot, now)
}
