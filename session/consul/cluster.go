package consul

import (
	"context"
	"net/http"
	"time"

	"conclave"
	"conclave/wire"
	"conclave/wire/admit"
	"conclave/wire/list"
	"conclave/wire/serve"
)

// Cluster is what a session gives. All services are those of the default instance and
// group.
type Cluster interface {
	// Put registers a value of a service, changes it, or renews the same one, for ttl; with a
	// ttl of 0 it withdraws it. It returns nil if the session has done that, though the data
	// nodes may not have it yet, also if ctx has ended meanwhile.
	Put(ctx context.Context, c serve.Caller, service, id, value string, ttl time.Duration) error
	// Next returns a list of a service that is another one than the caller has, once there
	// is one, or the same after a time. For a caller that has nothing it waits for a data
	// node. A list of a lower version is one of a cluster that has lost all.
	Next(ctx context.Context, c serve.Caller, service string, have List, within time.Duration) (List, error)
	// Services calls take with each service and its values, until it fails.
	Services(ctx context.Context, take func(service string, values []string) error) error
}

// List is the list of a service at a version. The zero List is that of a caller that has
// nothing.
type List struct {
	Version    int64
	*list.List // with the publishers, for the push guard
}

// index returns the index of a list, which is never 0.
func (l List) index() uint64 { return uint64(max(1, l.Version)) }

// Config configures a Server.
type Config struct {
	Cluster    Cluster
	Node       conclave.NodeID
	Address    func() string // of the session, for its clients
	Leader     func() string // the address of the meta leader, or "" if none is known
	Metas      func() []string
	DataCenter string
	Version    string
	ReadWait   time.Duration // for which a read waits for a data node
	Now        func() time.Time
	Answering  func(func(http.ResponseWriter, *http.Request) error) http.Handler // answers the errors, too
	// Sending waits until an answer of a size may be sent. The turn is left after that.
	Sending func(w http.ResponseWriter, r *http.Request, size int) (*admit.Turn, error)
}

// checkName returns why a text is no name of a service, or nil.
func checkName(name string) error {
	if _, err := conclave.NewDataInfoID(name, "", ""); err != nil {
		return wire.Errorf(wire.CodeBadRequest, "service name: %v", err)
	}
	return nil
}
