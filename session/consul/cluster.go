package consul

import (
	"context"
	"net/http"
	"time"

	"conclave"
	"conclave/wire"
	"conclave/wire/admit"
	"conclave/wire/serve"
)

// Cluster is what a session gives. All services are those of the default instance and
// group.
type Cluster interface {
	// Register registers a value of a service, changes it, or renews the same one, for ttl,
	// which is at most Config.Lease. The version rises with each change.
	Register(ctx context.Context, c Caller, service, id, value string, ttl time.Duration) (version int64, err error)
	// Prolong renews a registration whose client has sent nothing, but not beyond until,
	// unless this session may be the one that receives nothing.
	Prolong(c Caller, service, id string, version int64, until time.Time)
	Deregister(ctx context.Context, c Caller, service, id string) error
	// Next returns a list of a service that is another one than the caller has, once there
	// is one. Its code is bad_request if this cluster cannot have had that list.
	Next(ctx context.Context, c Caller, service string, have List) (List, error)
	// Services returns a page of all services with their values, after the one with the
	// key next of the page before; next is "" after the last.
	Services(ctx context.Context, after string) (page []Row, next string, err error)
}

// List is the list of a service at a version. The zero List is that of a caller that has
// nothing.
type List struct {
	Version int64
	Hash    uint64
	Values  []string

	Publishers []uint32 // of the values, for the push guard
}

// index returns the index of a list, which is never 0.
func (l List) index() uint64 { return uint64(max(1, l.Version)) }

// Row is a service in the list of all.
type Row struct {
	Service string
	Values  []string
}

// Caller is who has sent a request.
type Caller struct {
	Identity string // of its token
	Address  string
	Name     string // as operators are shown
}

// host returns the host of the caller. Its port means nothing.
func (c Caller) host() string { return serve.HostOf(c.Address) }

// agent names what is an agent for Consul: all that has one identity and comes from one host.
func (c Caller) agent() string { return c.Identity + "\x00" + c.host() }

// Config configures a Server.
type Config struct {
	Cluster    Cluster
	Node       conclave.NodeID
	Address    func() string // of the session, for its clients
	Leader     func() string // the address of the meta leader, or "" if none is known
	Metas      func() []string
	DataCenter string
	Version    string
	Lease      time.Duration // the longest for which a session keeps a registration of a silent client
	RenewEvery time.Duration // how often one is renewed
	ReadWait   time.Duration // for which a read waits for a data node
	Now        func() time.Time
	Large      *admit.Budget                                                     // bytes of large answers that are being sent, by host
	Answering  func(func(http.ResponseWriter, *http.Request) error) http.Handler // answers the errors, too
}

// checkName returns why a text is no name of a service, or nil.
func checkName(name string) error {
	if _, err := conclave.NewDataInfoID(name, "", ""); err != nil {
		return wire.Errorf(wire.CodeBadRequest, "service name: %v", err)
	}
	return nil
}
