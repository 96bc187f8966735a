package wire

import (
	"context"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"conclave"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// Peers is how a node calls others: typed clients by address, over one HTTP/2
// connection each, without TLS inside the cluster.
type Peers struct {
	network     *tracked
	transport   *http.Transport
	client      *http.Client
	interceptor *Interceptor

	nodes    shelf[wirev1connect.NodeServiceClient]
	metas    shelf[wirev1connect.MetaServiceClient]
	datas    shelf[wirev1connect.DataServiceClient]
	sessions shelf[wirev1connect.SessionServiceClient]
	clients  shelf[wirev1connect.ClientServiceClient]
}

// NewPeers makes the clients of a node. A connection on which nothing is heard
// for two seconds is asked by a ping and dropped a second later, so that a
// frozen host does not hold streams for ever.
func NewPeers(network Network, interceptor *Interceptor) *Peers {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	conns := &tracked{Network: network, open: map[*trackedConn]bool{}}
	transport := &http.Transport{
		Protocols:   protocols,
		DialContext: conns.DialContext,
		HTTP2:       &http.HTTP2Config{SendPingTimeout: 2 * time.Second, PingTimeout: time.Second},
	}
	return &Peers{network: conns, transport: transport, client: &http.Client{Transport: transport}, interceptor: interceptor}
}

// Close ends every connection, those of calls still under way and of dials that
// are yet to succeed included: net/http knows idle ones only, and would keep what
// a dial brings when nobody waits for it any more.
func (p *Peers) Close() {
	p.transport.CloseIdleConnections()
	p.network.close()
}

// HTTP is the plain client, for the admin API and server-sent events.
func (p *Peers) HTTP() *http.Client { return p.client }

func (p *Peers) options() connect.ClientOption {
	return connect.WithClientOptions(
		connect.WithInterceptors(p.interceptor),
		connect.WithReadMaxBytes(maxAnswer),
		// Nodes are near each other: compressing costs more than it saves (a
		// quarter of the processors' time, measured with 50,000 registrations).
		connect.WithAcceptCompression("gzip", nil, nil),
	)
}

// maxAnswer bounds what one message of a peer may have: many times what is sent
// in one request, since a datum collects the values of all its publishers.
const maxAnswer = 16 * conclave.MaxRequest

// The clients, each for the node at an address. Nothing is dialled before the first call.

// Node asks what every role answers: who it is, what it holds; and tells it who leads.
func (p *Peers) Node(address string) wirev1connect.NodeServiceClient {
	return p.nodes.at(p, address, wirev1connect.NewNodeServiceClient)
}

// Meta is a node's stream to its leader and what only a leader does, which others refuse
// with CodeNotLeader; and what metas ask each other about the election.
func (p *Peers) Meta(address string) wirev1connect.MetaServiceClient {
	return p.metas.at(p, address, wirev1connect.NewMetaServiceClient)
}

// Data writes to, reads from and watches slots, copies them and takes them over; an
// answer says for each slot whether it was that node's at the epoch asked for.
func (p *Peers) Data(address string) wirev1connect.DataServiceClient {
	return p.datas.at(p, address, wirev1connect.NewDataServiceClient)
}

// Session asks for what a session has registered in a slot: the truth of it.
func (p *Peers) Session(address string) wirev1connect.SessionServiceClient {
	return p.sessions.at(p, address, wirev1connect.NewSessionServiceClient)
}

// Client speaks to a session as an application does.
func (p *Peers) Client(address string) wirev1connect.ClientServiceClient {
	return p.clients.at(p, address, wirev1connect.NewClientServiceClient)
}

// shelf keeps the typed clients of one service, by address: making one costs as
// much as a small call. Nothing of a connection is in them.
type shelf[C any] struct {
	mu   sync.Mutex // guards made
	made map[string]C
}

// shelfSize bounds a shelf: where nodes come back under ever new addresses, it is
// emptied and begun anew.
const shelfSize = 1024

func (s *shelf[C]) at(p *Peers, address string, build func(connect.HTTPClient, string, ...connect.ClientOption) C) C {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.made[address]
	if !ok {
		if s.made == nil || len(s.made) >= shelfSize {
			s.made = map[string]C{}
		}
		c = build(p.client, "http://"+address, p.options())
		s.made[address] = c
	}
	return c
}

// Dial reports whether a connection to an address can be made, by making one of
// its own; nothing is sent on it. An error for which DialFailed is false, such as
// the end of ctx, proves nothing.
func (p *Peers) Dial(ctx context.Context, address string) error {
	conn, err := p.network.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// Knock dials an address on a connection of its own, so that no pooled one can
// hide who is there now, and asks who answers. Refused(err) is true when the
// host answered that nobody listens.
func (p *Peers) Knock(ctx context.Context, address string) (conclave.NodeID, conclave.Role, error) {
	conn, err := p.network.DialContext(ctx, "tcp", address)
	if err != nil {
		return conclave.NodeID{}, "", err
	}
	conn.Close()
	res, err := p.Node(address).Hello(ctx, connect.NewRequest(&wirev1.HelloRequest{}))
	if err != nil {
		return conclave.NodeID{}, "", FromConnect(err)
	}
	return NodeIn(res.Msg.Node), conclave.Role(res.Msg.Role), nil
}
