package serve

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"conclave"
	"conclave/internal/certs"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

func TestCallers_EachProcedureOfNodesHasRoles(t *testing.T) {
	known := 0
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			if !strings.HasPrefix("/"+string(s.FullName()), rpcPrefix) || string(s.FullName()) == wirev1connect.ClientServiceName {
				continue
			}
			for j := range s.Methods().Len() {
				path := "/" + string(s.FullName()) + "/" + string(s.Methods().Get(j).Name())
				assert.NotEmpty(t, routes[path].roles, path)
				known++
			}
		}
		return true
	})
	for key, r := range routes {
		if r.roles != nil {
			known--
		}
		assert.True(t, r.roles == nil || strings.HasPrefix(key, "/"), key)
	}
	assert.Zero(t, known)
}

// caller returns a request to a procedure with the certificate of a role.
func caller(path string, role string, verified bool) *http.Request {
	r := &http.Request{Method: http.MethodPost, Header: http.Header{}, TLS: &tls.ConnectionState{}}
	r.URL = must(http.NewRequest(http.MethodPost, "http://a"+path, nil)).URL
	if role != "" {
		cert := &x509.Certificate{DNSNames: []string{"a", certs.RoleName(conclave.Role(role))}}
		r.TLS.PeerCertificates = []*x509.Certificate{cert}
		if verified {
			r.TLS.VerifiedChains = [][]*x509.Certificate{{cert}}
		}
	}
	return r
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestCheckCaller_OtherRolesAreRefused(t *testing.T) {
	for _, c := range []struct {
		path, role string
		allowed    bool
	}{
		{wirev1connect.NodeServiceAnnounceProcedure, "meta", true},
		{wirev1connect.NodeServiceAnnounceProcedure, "session", false},
		{wirev1connect.NodeServiceAnnounceProcedure, "", false},
		{wirev1connect.MetaServiceWitnessProcedure, "data", false},
		{wirev1connect.MetaServiceWitnessProcedure, "meta", true},
		{wirev1connect.MetaServiceJoinProcedure, "session", true},
		{wirev1connect.MetaServiceJoinProcedure, "client", false},
		{wirev1connect.DataServiceFinishProcedure, "session", false},
		{wirev1connect.DataServiceFinishProcedure, "data", true},
		{wirev1connect.DataServiceWriteProcedure, "data", false},
		{wirev1connect.SessionServiceDiffProcedure, "session", false},
		{"/conclave.v1.LaterService/Act", "meta", false},
		{wirev1connect.ClientServiceConnectProcedure, "", true},
		{"/v1/leader", "", true},
	} {
		err := checkCaller(caller(c.path, c.role, true))
		assert.Equal(t, c.allowed, err == nil, "%s by %q: %v", c.path, c.role, err)
	}
	assert.Error(t, checkCaller(caller(wirev1connect.NodeServiceAnnounceProcedure, "meta", false)), "a certificate that was not verified names nothing")

	command := caller(wirev1connect.NodeServiceHelloProcedure, "session", true)
	require.NoError(t, checkCaller(command))
	command.Header.Set("Conclave-Term", "7")
	assert.Equal(t, wire.CodeForbidden, wire.CodeOf(checkCaller(command)), "only metas have a term")

	plain := caller(wirev1connect.NodeServiceAnnounceProcedure, "", false)
	plain.TLS = nil
	assert.NoError(t, checkCaller(plain), "without TLS nothing is known of the caller")
}

// tlsNode is a data node with TLS on the real network, whose service answers
// Hello and Announce.
type tlsNode struct {
	wirev1connect.UnimplementedNodeServiceHandler
	dir, address  string
	authorization atomic.Value // string: of the last Announce
}

func (*tlsNode) Hello(context.Context, *connect.Request[wirev1.HelloRequest]) (*connect.Response[wirev1.HelloResponse], error) {
	return connect.NewResponse(&wirev1.HelloResponse{Node: wire.NodeOut(conclave.NodeID{Name: "data-1", Incarnation: "a"}), Role: "data"}), nil
}

func (n *tlsNode) Announce(_ context.Context, r *connect.Request[wirev1.AnnounceRequest]) (*connect.Response[wirev1.AnnounceResponse], error) {
	n.authorization.Store(r.Header().Get("Authorization"))
	return connect.NewResponse(&wirev1.AnnounceResponse{}), nil
}

func startTLS(t *testing.T, secured bool) *tlsNode {
	t.Helper()
	n := &tlsNode{dir: t.TempDir()}
	require.NoError(t, certs.NewCA(n.dir, certs.CAValid))
	require.NoError(t, certs.Issue(n.dir, []string{"127.0.0.1"}, certs.Valid))
	set, err := certs.Load(filepath.Join(n.dir, "data"), conclave.RoleData, func(error) {})
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	n.address = ln.Addr().String()
	if secured {
		ln = set.Listener(ln, false)
	}
	r := NewRouter(RouterConfig{
		Node: conclave.NodeID{Name: "data-1", Incarnation: "a"}, Role: conclave.RoleData, Metrics: prometheus.NewRegistry(), Events: NewEvents("d", time.Now),
		Ready: func() (bool, []string) { return true, nil },
	})
	path, h := wirev1connect.NewNodeServiceHandler(n, HandlerOptions(&wire.Interceptor{}))
	Mount(r, path, h)
	server := NewHTTPServer(ln, r, wire.PingTimeout)
	done := make(chan error, 1)
	go func() { done <- server.Serve() }()
	t.Cleanup(func() {
		server.Close()
		assert.NoError(t, <-done)
	})
	return n
}

// peers returns the clients of a node of that role; "" is a process without TLS.
func (n *tlsNode) peers(t *testing.T, role conclave.Role) *wire.Peers {
	t.Helper()
	p := wire.NewPeers(wire.NewTCP(), &wire.Interceptor{}, wire.PingTimeout)
	t.Cleanup(p.Close)
	switch role {
	case "":
	case certs.ClientRole:
		set, err := certs.Load(filepath.Join(n.dir, "client"), "", func(error) {})
		require.NoError(t, err)
		p.UseTLS(set.Client)
	default:
		set, err := certs.Load(filepath.Join(n.dir, string(role)), role, func(error) {})
		require.NoError(t, err)
		p.UseTLS(set.ToNodes)
	}
	return p
}

func TestTLS_NodesCallEachOtherByRole(t *testing.T) {
	n := startTLS(t, true)
	for role, want := range map[conclave.Role]wire.Code{
		conclave.RoleMeta: "", conclave.RoleSession: wire.CodeForbidden, conclave.RoleData: wire.CodeForbidden, certs.ClientRole: wire.CodeForbidden,
	} {
		p := n.peers(t, role)
		_, err := p.Node(n.address).Announce(t.Context(), connect.NewRequest(&wirev1.AnnounceRequest{}))
		assert.Equal(t, want, wire.CodeOf(wire.FromConnect(err)), "%s: %v", role, err)
		node, _, err := p.Knock(t.Context(), n.address)
		if role == certs.ClientRole {
			assert.Error(t, err)
		} else {
			require.NoError(t, err)
			assert.Equal(t, "data-1", node.Name)
		}
		res, err := p.HTTP().Get("http://" + n.address + "/healthz") // the scheme of a URL does not matter
		require.NoError(t, err)
		assert.Equal(t, http.StatusOK, res.StatusCode)
		assert.Equal(t, 2, res.ProtoMajor)
		res.Body.Close()
	}
}

func TestTLS_OneSideWithoutItIsNamed(t *testing.T) {
	plain := startTLS(t, false)
	_, _, err := plain.peers(t, conclave.RoleMeta).Knock(t.Context(), plain.address)
	assert.ErrorContains(t, err, "it does not use TLS")

	secured := startTLS(t, true)
	_, _, err = secured.peers(t, "").Knock(t.Context(), secured.address)
	assert.Error(t, err) // with the reason, unless the connection is reset before it is read: certs.TestListener_RefusesPlainHTTPWithAReason
	t.Log(err)
	res, err := http.Get("http://" + secured.address + "/healthz")
	require.NoError(t, err)
	defer res.Body.Close()
	assert.Equal(t, http.StatusBadRequest, res.StatusCode)
}

// stranger accepts connections with these settings, or without TLS, and returns its
// address and what it was sent.
func stranger(t *testing.T, settings *tls.Config) (address string, sent func() string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address = ln.Addr().String()
	if settings != nil {
		ln = tls.NewListener(ln, settings)
	}
	var mu sync.Mutex
	var text []byte
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(time.Second))
				got, _ := io.ReadAll(conn)
				mu.Lock()
				defer mu.Unlock()
				text = append(text, got...)
			})
		}
	})
	return address, func() string {
		ln.Close()
		serving.Wait()
		mu.Lock()
		defer mu.Unlock()
		return string(text)
	}
}

// withoutRole returns the pair of a server with a certificate of the CA in dir that
// names no role.
func withoutRole(t *testing.T, dir string) tls.Certificate {
	t.Helper()
	ca, err := tls.LoadX509KeyPair(filepath.Join(dir, certs.CAFile), filepath.Join(dir, certs.CAKeyFile))
	require.NoError(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Leaf, &key.PublicKey, ca.PrivateKey)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Whichever process has named an address: with TLS a node sends its token there only after
// the certificate has shown that it is a node of this cluster.
func TestTLS_TokenIsSentToNodesOnly(t *testing.T) {
	n := startTLS(t, true)
	other := t.TempDir()
	require.NoError(t, certs.NewCA(other, certs.CAValid))
	require.NoError(t, certs.Issue(other, []string{"127.0.0.1"}, certs.Valid))
	foreign, err := tls.LoadX509KeyPair(filepath.Join(other, "meta", certs.CertFile), filepath.Join(other, "meta", certs.KeyFile))
	require.NoError(t, err)
	h2 := func(c tls.Certificate) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{c}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13}
	}
	set, err := certs.Load(filepath.Join(n.dir, "meta"), conclave.RoleMeta, func(error) {})
	require.NoError(t, err)
	p := wire.NewPeers(wire.NewTCP(), &wire.Interceptor{Token: func(string) string { return "s3cret" }}, wire.PingTimeout)
	t.Cleanup(p.Close)
	p.UseTLS(set.ToNodes)
	call := func(address string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := p.Node(address).Announce(ctx, connect.NewRequest(&wirev1.AnnounceRequest{}))
		return err
	}
	for name, settings := range map[string]*tls.Config{
		"without TLS": nil, "a certificate of another CA": h2(foreign), "a certificate without a role": h2(withoutRole(t, n.dir)),
	} {
		address, sent := stranger(t, settings)
		assert.Error(t, call(address), name)
		got := sent()
		assert.NotContains(t, got, "s3cret", name)
		if settings != nil {
			assert.Empty(t, got, "%s: nothing follows the handshake", name)
		}
	}
	require.NoError(t, call(n.address))
	assert.Equal(t, "Bearer s3cret", n.authorization.Load())
}
