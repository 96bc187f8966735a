package session

import (
	"context"
	"net"
	"time"

	"conclave"
	"conclave/session/consul"
	"conclave/session/registry"
	"conclave/wire"
	"conclave/wire/serve"
)

// openDoors opens the ports for clients of Consul and for DNS that are configured, and
// returns the loops that serve them.
func (s *Server) openDoors(ctx context.Context) (loops []func(context.Context), err error) {
	c := s.config
	if c.ConsulListen == "" && c.DNSListen == "" {
		return nil, nil
	}
	server := consul.New(consul.Config{
		Cluster: &consulCluster{s}, Node: c.Node, Address: s.Address, Metas: s.meta.Metas, DataCenter: c.DataCenter, Version: c.Version,
		Lease: registry.FreshFor(c.SessionGrace), RenewEvery: registry.FreshFor(c.SessionGrace) / renewals, ReadWait: readWait, Now: c.Now, Answering: s.services.answering, Sending: s.services.sending,
		Leader: func() string {
			leader, _ := s.meta.Leader()
			return leader.Address
		},
	})
	loops = append(loops, server.Run)
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
		handler := withRequest(consul.Handler(router), s.services.intake)
		loops = append(loops, func(ctx context.Context) { s.Serve(ctx, ln, handler) })
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
	return loops, nil
}

// consulRows is how many services with their values a page of the catalog has.
const consulRows = 200

// consulCluster is what package consul has of the session: registrations by request,
// requests that wait, and the list of all services.
type consulCluster struct{ *Server }

// registrantOf returns the registration of a caller.
func (consulCluster) registrantOf(c serve.Caller, service, id string) registrant {
	data, _ := conclave.NewDataInfoID(service, "", "") // a name that package consul has checked
	return registrant{c, id, data}
}

// Register implements consul.Cluster.
func (s *consulCluster) Register(ctx context.Context, c serve.Caller, service, id, value string, ttl time.Duration) (int64, error) {
	out, err := s.services.registrants.put(ctx, s.registrantOf(c, service, id), 0, []string{value}, ttl)
	return out.version, err
}

// Prolong implements consul.Cluster. A session that is cut off from the data nodes is
// perhaps cut off from its clients, too, which have gone on elsewhere.
func (s *consulCluster) Prolong(c serve.Caller, service, id string, version int64, until time.Time) {
	if !s.isCutOff() {
		s.services.registrants.prolong(s.registrantOf(c, service, id), version, until)
	}
}

// Deregister implements consul.Cluster.
func (s *consulCluster) Deregister(ctx context.Context, c serve.Caller, service, id string) (int64, error) {
	out, err := s.services.registrants.withdraw(ctx, s.registrantOf(c, service, id), 0)
	return out.version, err
}

// Next implements consul.Cluster. The subscription of a request lasts until the request is
// answered, for which a stop waits.
func (s *consulCluster) Next(ctx context.Context, c serve.Caller, service string, have consul.List, within time.Duration) (consul.List, error) {
	data := s.registrantOf(c, service, "").data
	push, ok, err := s.services.polls.first(ctx, c, data, seen{have.Version, have.Hash, uint32(len(have.Values)), have.Publishers}, within)
	if err != nil || !ok {
		return have, err
	}
	_, version, list, _ := push.List()
	return consul.List{Version: version, Hash: list.Hash(), Values: list.Values, Publishers: list.Publishers}, nil
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
			switch {
			case row.Instance != conclave.DefaultInstance || row.Group != conclave.DefaultGroup:
				continue
			case row.MoreValues > 0:
				err = wire.Errorf(wire.CodeTooLarge, "the list of %s is too large for one of all services: ask for a service", row.DataID)
			default:
				err = take(row.DataID, row.Values)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
