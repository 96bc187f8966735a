package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"conclave"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// MaxMessage is the limit of one message from a peer. It is a multiple of the
// limit of a request, because a list combines the values of all its publishers;
// builds that know no parts send and receive lists of up to this size.
const MaxMessage = 16 * conclave.MaxRequest

// Peers are the clients with which a node calls others: typed clients by
// address, over one HTTP/2 connection each, without TLS unless UseTLS is called.
type Peers struct {
	network     *tracked
	transport   *http.Transport
	client      *http.Client
	interceptor *Interceptor

	nodes    clientCache[wirev1connect.NodeServiceClient]
	metas    clientCache[wirev1connect.MetaServiceClient]
	datas    clientCache[wirev1connect.DataServiceClient]
	sessions clientCache[wirev1connect.SessionServiceClient]
	clients  clientCache[wirev1connect.ClientServiceClient]
}

// The times of HTTP/2's own pings, so that a frozen host does not keep streams
// open: a connection on which nothing was received for PingAfter is pinged, and
// closed if the answer takes longer than a limit. Between nodes that is
// PingTimeout. Between a client and its session, which know of each other's death
// by pings and leases of their own, it is ClientPingTimeout: thousands of clients
// that connect at once may keep a session busy for longer than PingTimeout.
const (
	PingAfter         = 2 * time.Second
	PingTimeout       = time.Second
	ClientPingTimeout = 4 * time.Second
)

// maxUnread is how many bytes of one stream are on their way at most. An answer to a
// ping, or to a call, waits behind them: with the 4 MiB of net/http a follower that
// handles 1.7 MB a second is taken for dead while it reads its leader's feed.
const maxUnread = 256 << 10

// maxFrame is the largest frame that is received. For each stream on which it sends, a
// client of net/http keeps a buffer of the size of the server's frames, half a MiB by
// default.
const maxFrame = 64 << 10

// HTTP2 returns the settings of HTTP/2 for a client or a server. pings is PingTimeout
// or ClientPingTimeout. Between clients and sessions, of which there are thousands,
// no table of header fields is kept for each connection.
func HTTP2(pings time.Duration) *http.HTTP2Config {
	c := &http.HTTP2Config{SendPingTimeout: PingAfter, PingTimeout: pings, MaxReceiveBufferPerStream: maxUnread, MaxReadFrameSize: maxFrame}
	if pings == ClientPingTimeout {
		c.MaxEncoderHeaderTableSize = 1 // 0 is the default of 4,096 bytes
	}
	return c
}

// NewPeers returns the clients of a node. pings is the limit of the time that the
// answer to an HTTP/2 ping may take.
func NewPeers(network Network, interceptor *Interceptor, pings time.Duration) *Peers {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	conns := track(network)
	transport := &http.Transport{
		Protocols:   protocols,
		DialContext: conns.DialContext,
		HTTP2:       HTTP2(pings),
	}
	return &Peers{network: conns, transport: transport, client: &http.Client{Transport: transport}, interceptor: interceptor}
}

// Close closes every connection, including those of calls in progress, and ends and
// joins the dials in progress. (net/http closes idle connections only, and would
// keep the connection of a dial whose caller has given up.)
func (p *Peers) Close() {
	p.transport.CloseIdleConnections()
	p.network.close()
}

// HTTP returns the plain client, for the admin API and server-sent events.
func (p *Peers) HTTP() *http.Client { return p.client }

func (p *Peers) options() connect.ClientOption {
	return connect.WithClientOptions(
		connect.WithInterceptors(p.interceptor),
		connect.WithReadMaxBytes(MaxMessage),
		// Nodes are close to each other, so compression costs more than it
		// saves (a quarter of the CPU time, measured with 50,000
		// registrations).
		connect.WithAcceptCompression("gzip", nil, nil),
	)
}

// The methods below return the client for the node at an address. They do not
// dial; the first call does.

// Node returns the client of the service that every role answers: the node's
// identity, its state, and announcements of a new leader.
func (p *Peers) Node(address string) wirev1connect.NodeServiceClient {
	return p.nodes.at(p, address, wirev1connect.NewNodeServiceClient)
}

// Meta returns the client of the meta service: a node's stream to the leader
// and its other requests, which a node that does not lead refuses with
// CodeNotLeader, and the questions that meta nodes ask each other about the
// election.
func (p *Peers) Meta(address string) wirev1connect.MetaServiceClient {
	return p.metas.at(p, address, wirev1connect.NewMetaServiceClient)
}

// Data returns the client of the data service, which writes, reads, watches,
// copies and takes over slots. An answer reports for each slot whether the node
// leads it at the requested epoch.
func (p *Peers) Data(address string) wirev1connect.DataServiceClient {
	return p.datas.at(p, address, wirev1connect.NewDataServiceClient)
}

// Session returns the client of the session service, which returns a session's
// registrations in a slot.
func (p *Peers) Session(address string) wirev1connect.SessionServiceClient {
	return p.sessions.at(p, address, wirev1connect.NewSessionServiceClient)
}

// Client returns the client of the service that applications use.
func (p *Peers) Client(address string) wirev1connect.ClientServiceClient {
	return p.clients.at(p, address, wirev1connect.NewClientServiceClient)
}

// clientCache keeps the typed clients of one service by address, since making
// one costs as much as a small call. They hold no connections.
type clientCache[C any] struct {
	mu        sync.Mutex // guards byAddress
	byAddress map[string]C
}

// maxCached is the size at which the cache is emptied. It bounds the cache when
// nodes keep returning under new addresses.
const maxCached = 1024

func (s *clientCache[C]) at(p *Peers, address string, build func(connect.HTTPClient, string, ...connect.ClientOption) C) C {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.byAddress[address]
	if !ok {
		if s.byAddress == nil || len(s.byAddress) >= maxCached {
			s.byAddress = map[string]C{}
		}
		c = build(streamClient{p.client}, "http://"+address, p.options())
		s.byAddress[address] = c
	}
	return c
}

// Dial checks whether the address can be reached, by making a connection and
// closing it again without sending anything. An error for which DialFailed is
// false, such as the end of ctx, proves nothing.
func (p *Peers) Dial(ctx context.Context, address string) error {
	conn, err := p.network.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	_ = conn.Close() // it is not needed any more
	return nil
}

// Knock returns the identity and role of the node at an address. It first makes
// a new connection, because a pooled one might hide that the process has
// changed. Refused(err) is true if no process listens there.
func (p *Peers) Knock(ctx context.Context, address string) (conclave.NodeID, conclave.Role, error) {
	if err := p.Dial(ctx, address); err != nil {
		return conclave.NodeID{}, "", err
	}
	res, err := p.Node(address).Hello(ctx, connect.NewRequest(&wirev1.HelloRequest{}))
	if err != nil {
		return conclave.NodeID{}, "", FromConnect(err)
	}
	return NodeIn(res.Msg.Node), conclave.Role(res.Msg.Role), nil
}

// handshakeTimeout bounds a TLS handshake, which a frozen host never finishes.
const handshakeTimeout = 4 * time.Second

// SecureTransport makes t use TLS for every request, whatever the scheme of its
// URL, unless current returns nil. current returns the settings of each new
// connection, so that they may change while connections are open; their
// ServerName is the host that is dialled, unless it is set. SecureTransport must
// be called before the first request.
func SecureTransport(t *http.Transport, current func() *tls.Config) http.RoundTripper {
	dial := t.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	protocol := "http/1.1"
	if t.Protocols != nil && t.Protocols.UnencryptedHTTP2() {
		t.Protocols.SetHTTP2(true)
		protocol = "h2"
	}
	t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		settings := current()
		if settings == nil {
			return nil, fmt.Errorf("TLS with %s: no certificates are configured", address)
		}
		settings = settings.Clone()
		settings.NextProtos = []string{protocol}
		if settings.ServerName == "" {
			settings.ServerName, _, _ = net.SplitHostPort(address) // dial reports an invalid address
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		secured := tls.Client(conn, settings)
		ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
		defer cancel()
		if err := secured.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, handshakeError(address, err)
		}
		return secured, nil
	}
	return secureTransport{t, current}
}

// handshakeError names the reason for which a handshake failed.
func handshakeError(address string, err error) error {
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain {
		return fmt.Errorf("TLS with %s: it does not use TLS: start it with --tls-dir, or connect without TLS (%w)", address, err)
	}
	return fmt.Errorf("TLS with %s: %w", address, err)
}

// secureTransport sends requests with TLS. Addresses in states and messages have
// no scheme: whether a cluster uses TLS is a setting of each process.
type secureTransport struct {
	*http.Transport
	current func() *tls.Config
}

// RoundTrip implements http.RoundTripper.
func (t secureTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "http" && t.current() != nil {
		secured, url := *r, *r.URL
		url.Scheme = "https"
		secured.URL = &url
		r = &secured
	}
	return t.Transport.RoundTrip(r)
}

// UseTLS makes all connections use TLS; see SecureTransport. It must be called
// before the first call.
func (p *Peers) UseTLS(current func() *tls.Config) {
	p.client.Transport = SecureTransport(p.transport, current)
}
