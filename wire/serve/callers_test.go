package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"path/filepath"
	"strings"
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
				assert.NotEmpty(t, callers[path], path)
				known++
			}
		}
		return true
	})
	assert.Len(t, callers, known)
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
	dir, address string
}

func (tlsNode) Hello(context.Context, *connect.Request[wirev1.HelloRequest]) (*connect.Response[wirev1.HelloResponse], error) {
	return connect.NewResponse(&wirev1.HelloResponse{Node: wire.NodeOut(conclave.NodeID{Name: "data-1", Incarnation: "a"}), Role: "data"}), nil
}

func (tlsNode) Announce(context.Context, *connect.Request[wirev1.AnnounceRequest]) (*connect.Response[wirev1.AnnounceResponse], error) {
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
	assert.Error(t, err) // with the reason, unless the connection is reset before it is read: certs.TestListener_RefusesPlainHTTP2WithAReason
	t.Log(err)
	res, err := http.Get("http://" + secured.address + "/healthz")
	require.NoError(t, err)
	defer res.Body.Close()
	assert.Equal(t, http.StatusBadRequest, res.StatusCode)
}
