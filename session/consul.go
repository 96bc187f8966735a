package session

import (
	"cmp"
	"context"
	"net"
	"time"

	"conclave"
	"conclave/session/consul"
	"conclave/wire"
	"conclave/wire/list"
	"conclave/wire/serve"
	wirev1 "conclave/wire/v1"
)

// openDoors opens the ports for other clients that are configured: for those of Consul,
// for DNS, and for those of SOFARegistry. It returns the loops that serve them.
func (s *Server) openDoors(ctx context.Context) (loops []func(context.Context), err error) {
	c := s.config
	server := consul.New(consul.Config{
		Cluster: &consulCluster{s}, Node: c.Node, Address: s.Address, Metas: s.meta.Metas, DataCenter: c.DataCenter, Version: c.Version,
		ReadWait: readWait, Now: c.Now, Answering: s.services.answering, Sending: s.services.sending,
		Leader: func() string {
			leader, _ := s.meta.Leader()
			return leader.Address
		},
	})
	if c.ConsulListen != "" {
		router := s.PlainRouter(s.ready)
		server.Add(router)
		if err := serve.CheckRoutes(router); err != nil {
			return nil, err
		}
		ln, err := s.Listen(ctx, c.ConsulListen)
		if err != nil {
			return nil, err
		}
		s.log.Info("clients of Consul are answered", "address", ln.Addr().String())
		s.Serve(ln, withRequest(consul.Handler(router), s.services.intake))
	}
	if c.DNSListen != "" {
		ln, err := s.Listen(ctx, c.DNSListen)
		if err != nil {
			return nil, err
		}
		var packets net.PacketConn
		if network, ok := c.Network.(interface {
			ListenPacket(ctx context.Context, network, address string) (net.PacketConn, error)
		}); ok { // the network of the simulator has only streams
			if packets, err = network.ListenPacket(ctx, "udp", ln.Addr().String()); err != nil {
				return nil, err
			}
		}
		s.log.Info("DNS is answered", "address", ln.Addr().String())
		loops = append(loops, func(ctx context.Context) {
			if err := server.DNS().Serve(ctx, ln, packets); err != nil && ctx.Err() == nil {
				s.log.Error("DNS is not answered any longer", "error", err)
			}
		})
	}
	if c.SofaListen != "" {
		ln, err := s.Listen(ctx, c.SofaListen)
		if err != nil {
			return nil, err
		}
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		s.meta.Self.Sofa = net.JoinHostPort(serve.HostOf(s.Address()), port)
		s.log.Info("clients of SOFARegistry are served", "address", ln.Addr().String(), "advertised", s.meta.Self.Sofa)
		loops = append(loops, func(ctx context.Context) { s.sofa.run(ctx, ln) })
	}
	return loops, nil
}

// consulRows is how many services with their values a page of the catalog has.
const consulRows = 200

// consulCluster is what package consul has of the session: registrations by request,
// requests that wait, and the list of all services.
type consulCluster struct{ *Server }

// Put implements consul.Cluster.
func (s *consulCluster) Put(ctx context.Context, c serve.Caller, service, id, value string, ttl time.Duration) error {
	x, p := registrant{Caller: c, id: id}, &wirev1.Publisher{Withdrawn: ttl == 0}
	x.data, _ = conclave.NewDataInfoID(service, "", "") // a name that package consul has checked
	if ttl > 0 {
		p.Values = []string{value}
	}
	out, err := s.services.registrants.send(ctx, x, ttl, p)
	if out.version != 0 && ctx.Err() != nil {
		return nil // it is done: its client has only not waited until the data nodes have it
	}
	return err
}

// Next implements consul.Cluster. The subscription of a request lasts until the request is
// answered, for which a stop waits.
func (s *consulCluster) Next(ctx context.Context, c serve.Caller, service string, have consul.List, within time.Duration) (consul.List, error) {
	data, _ := conclave.NewDataInfoID(service, "", "")
	had := cmp.Or(have.List, &list.List{})
	push, ok, err := s.services.polls.first(ctx, c, data, seen{have.Version, had.Hash(), uint32(len(had.Values)), had.Publishers}, within)
	if err == nil && ok {
		_, have.Version, have.List, _ = push.List()
	}
	return have, err
}

// Services implements consul.Cluster. Its callers share a list, and its place.
func (s *consulCluster) Services(ctx context.Context, take func(service string, values []string) error) error {
	for after, more := "", true; more; {
		var rows []serviceRow
		var err error
		if rows, more, err = s.services.catalog.page(ctx, "", "", after, consulRows, true); err != nil {
			return err
		}
		for _, row := range rows {
			after = row.key()
			if row.Instance != conclave.DefaultInstance || row.Group != conclave.DefaultGroup {
				continue
			}
			if row.MoreValues > 0 {
				return wire.Errorf(wire.CodeTooLarge, "the list of %s is too large for one of all services: ask for a service", row.DataID)
			}
			if err := take(row.DataID, row.Values); err != nil {
				return err
			}
		}
	}
	return nil
}
