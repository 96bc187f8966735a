package certs_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	_ "conclave/internal/bubble"
	"conclave/internal/certs"
)

// ca writes a new CA and certificates for 127.0.0.1 to a folder.
func ca(t *testing.T, valid time.Duration) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, certs.NewCA(dir, certs.CAValid))
	require.NoError(t, certs.Issue(dir, []string{"127.0.0.1", "node.example"}, valid))
	return dir
}

func load(t *testing.T, dir string, role conclave.Role) *certs.Set {
	t.Helper()
	folder := string(role)
	if role == "" {
		folder = string(certs.ClientRole)
	}
	s, err := certs.Load(filepath.Join(dir, folder), role, func(err error) { t.Log("reload:", err) })
	require.NoError(t, err)
	return s
}

// shake makes one connection from a client to a server, and returns what each
// side found.
func shake(t *testing.T, server *certs.Set, mutual bool, client *tls.Config) (state tls.ConnectionState, clientErr, serverErr error) {
	t.Helper()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln := server.Listener(plain, mutual)
	defer ln.Close()
	served := make(chan error, 1)
	go func() {
		conn, err := ln.Accept()
		if err == nil {
			defer conn.Close()
			err = conn.(*tls.Conn).HandshakeContext(t.Context())
			state = conn.(*tls.Conn).ConnectionState()
		}
		if err == nil {
			_, err = io.WriteString(conn, "hi")
		}
		served <- err
	}()
	conn, err := net.Dial("tcp", plain.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	client.ServerName = "127.0.0.1"
	secured := tls.Client(conn, client)
	_, err = io.ReadFull(secured, make([]byte, 2))
	if err != nil {
		conn.Close()
	}
	return state, err, <-served
}

func TestListener_NodesAndClientsConnect(t *testing.T) {
	dir := ca(t, certs.Valid)
	server := load(t, dir, conclave.RoleMeta)
	for name, client := range map[string]*tls.Config{
		"a node":   load(t, dir, conclave.RoleSession).ToNodes(),
		"a client": load(t, dir, "").Client(),
	} {
		state, clientErr, serverErr := shake(t, server, true, client)
		require.NoError(t, clientErr, name)
		require.NoError(t, serverErr, name)
		assert.Equal(t, name == "a node", certs.PeerHasRole(&state, conclave.RoleSession), name)
		assert.False(t, certs.PeerHasRole(&state, conclave.RoleMeta, conclave.RoleData), name)
		assert.EqualValues(t, tls.VersionTLS13, state.Version)
	}
}

func TestListener_ClientsNeedACertificateIfMutual(t *testing.T) {
	dir := ca(t, certs.Valid)
	server := load(t, dir, conclave.RoleSession)
	anonymous := load(t, dir, "").Client()
	anonymous.Certificates = nil
	state, clientErr, serverErr := shake(t, server, false, anonymous.Clone())
	require.NoError(t, errors.Join(clientErr, serverErr))
	assert.False(t, certs.PeerHasRole(&state, conclave.RoleMeta, conclave.RoleSession, conclave.RoleData))
	_, clientErr, serverErr = shake(t, server, true, anonymous)
	assert.Error(t, clientErr)
	assert.ErrorContains(t, serverErr, "certificate")
}

func TestListener_CertificatesOfAnotherCAAreRefused(t *testing.T) {
	dir, other := ca(t, certs.Valid), ca(t, certs.Valid)
	server := load(t, dir, conclave.RoleMeta)
	_, clientErr, _ := shake(t, server, false, load(t, other, conclave.RoleMeta).ToNodes())
	assert.ErrorContains(t, clientErr, "unknown authority", "the client verifies the server")

	c := load(t, other, conclave.RoleMeta).ToNodes()
	c.RootCAs = load(t, dir, conclave.RoleMeta).ToNodes().RootCAs
	_, _, serverErr := shake(t, server, false, c)
	assert.ErrorContains(t, serverErr, "unknown authority", "the server verifies the client, though it need not have a certificate")
}

// A certificate of the CA that names no role is that of another service.
func TestToNodes_OnlyNodesAreCalled(t *testing.T) {
	dir := ca(t, certs.Valid)
	client := load(t, dir, conclave.RoleSession).ToNodes()
	for role, want := range map[conclave.Role]string{conclave.RoleData: "", certs.ClientRole: "that of a node needs one like"} {
		names := map[bool][2]string{false: {certs.CertFile, certs.KeyFile}, true: {certs.ClientCertFile, certs.ClientKeyFile}}[role == certs.ClientRole]
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, string(role), names[0]), filepath.Join(dir, string(role), names[1]))
		require.NoError(t, err)
		state := tls.ConnectionState{ServerName: "a", PeerCertificates: []*x509.Certificate{pair.Leaf}, VerifiedChains: [][]*x509.Certificate{{pair.Leaf}}}
		if err := client.VerifyConnection(state); want == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, want)
		}
	}
}

func TestListener_ExpiredCertificateIsRefused(t *testing.T) {
	dir := ca(t, certs.Valid)
	server := load(t, dir, conclave.RoleMeta)
	c := load(t, dir, conclave.RoleSession).ToNodes()
	require.NoError(t, certs.Issue(dir, []string{"127.0.0.1"}, -time.Minute)) // ended a minute ago
	expired, err := tls.LoadX509KeyPair(filepath.Join(dir, "session", certs.CertFile), filepath.Join(dir, "session", certs.KeyFile))
	require.NoError(t, err)
	c.Certificates = []tls.Certificate{expired}
	_, _, serverErr := shake(t, server, false, c)
	assert.ErrorContains(t, serverErr, "expired")
}

func TestLoad_NamesWhatIsWrong(t *testing.T) {
	dir := ca(t, certs.Valid)
	other := ca(t, certs.Valid)
	expired := ca(t, -time.Minute)
	swap := func(from, file string) string {
		out := t.TempDir()
		require.NoError(t, os.CopyFS(out, os.DirFS(filepath.Join(dir, "meta"))))
		if from == "" {
			require.NoError(t, os.Remove(filepath.Join(out, file)))
			return out
		}
		body, err := os.ReadFile(filepath.Join(from, "meta", file))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(out, file), body, 0o600))
		return out
	}
	for name, c := range map[string]struct {
		dir  string
		role conclave.Role
		want string
	}{
		"no key":            {swap("", certs.KeyFile), conclave.RoleMeta, certs.KeyFile},
		"a key of another":  {swap(other, certs.KeyFile), conclave.RoleMeta, "private key does not match"},
		"another CA":        {swap(other, certs.CAFile), conclave.RoleMeta, "unknown authority"},
		"another role":      {filepath.Join(dir, "session"), conclave.RoleMeta, `needs "meta.conclave"`},
		"expired":           {filepath.Join(expired, "meta"), conclave.RoleMeta, "expired"},
		"no folder":         {filepath.Join(dir, "none"), "", certs.CAFile},
		"a client's folder": {filepath.Join(dir, "client"), conclave.RoleMeta, certs.CertFile},
	} {
		_, err := certs.Load(c.dir, c.role, func(error) {})
		assert.ErrorContains(t, err, c.want, name)
	}
	onlyCA := t.TempDir()
	body, err := os.ReadFile(filepath.Join(dir, certs.CAFile))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(onlyCA, certs.CAFile), body, 0o600))
	s, err := certs.Load(onlyCA, "", func(error) {})
	require.NoError(t, err, "a client needs no certificate")
	assert.Empty(t, s.Client().Certificates)
	assert.True(t, s.Expires().IsZero())
}

func TestIssue_KeysAreForTheirOwnerOnly(t *testing.T) {
	dir := ca(t, certs.Valid)
	for _, file := range []string{certs.CAKeyFile, "meta/" + certs.KeyFile, "client/" + certs.ClientKeyFile} {
		info, err := os.Stat(filepath.Join(dir, file))
		require.NoError(t, err)
		assert.EqualValues(t, 0o600, info.Mode().Perm(), file)
	}
	assert.ErrorIs(t, certs.NewCA(dir, certs.CAValid), certs.ErrExists)
}

// A reload needs no restart, and files that cannot be used change nothing. The
// bubble's clock passes the time after which the files are read again.
func TestSet_ReloadsForNewConnections(t *testing.T) {
	dir := ca(t, certs.Valid)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))) // the bubble begins in 2000
		require.NoError(t, os.RemoveAll(filepath.Join(dir, certs.CAFile)))
		require.NoError(t, os.RemoveAll(filepath.Join(dir, certs.CAKeyFile)))
		require.NoError(t, certs.NewCA(dir, certs.CAValid))
		require.NoError(t, certs.Issue(dir, nil, certs.Valid))
		folder := filepath.Join(dir, "meta")
		var reports []error
		s, err := certs.Load(folder, conclave.RoleMeta, func(err error) { reports = append(reports, err) })
		require.NoError(t, err)
		serial := func() string { return s.Client().Certificates[0].Leaf.SerialNumber.String() }
		began := serial()

		require.NoError(t, certs.Issue(dir, nil, certs.Valid))
		assert.Equal(t, began, serial(), "the files are not read for each connection")
		time.Sleep(time.Second)
		renewed := serial()
		assert.NotEqual(t, began, renewed)
		assert.Equal(t, []error{nil}, reports)

		// A key that does not fit, and a file that is missing.
		reports = nil
		require.NoError(t, os.WriteFile(filepath.Join(folder, certs.KeyFile), []byte("no key"), 0o600))
		for range 3 {
			time.Sleep(time.Second)
			assert.Equal(t, renewed, serial(), "the old one stays")
		}
		require.Len(t, reports, 1, "it is reported once")
		assert.ErrorContains(t, reports[0], certs.KeyFile)
		require.NoError(t, os.Remove(filepath.Join(folder, certs.CAFile)))
		time.Sleep(time.Second)
		assert.Equal(t, renewed, serial())
		assert.Len(t, reports, 2)
		assert.EqualValues(t, 2, s.Failed())

		// Expired ones do not replace those in use.
		require.NoError(t, certs.Issue(dir, nil, -time.Minute))
		time.Sleep(time.Second)
		assert.Equal(t, renewed, serial())
		assert.ErrorContains(t, reports[2], "expired")

		require.NoError(t, certs.Issue(dir, nil, certs.Valid))
		time.Sleep(time.Second)
		assert.NotEqual(t, renewed, serial())
		assert.NoError(t, reports[3])
	})
}

// Of callers that come at the same time one reads the files. The others do not
// continue with older ones: these may be from before a CA was added.
func TestSet_CallersAtTheSameTimeUseTheNewFiles(t *testing.T) {
	dir := ca(t, certs.Valid)
	s := load(t, dir, conclave.RoleMeta)
	s.LookAlways()
	for range 20 {
		before := s.Client().Certificates[0].Leaf.SerialNumber
		require.NoError(t, certs.Issue(dir, nil, certs.Valid))
		var calling sync.WaitGroup
		for range 8 {
			calling.Go(func() { assert.NotEqual(t, before, s.Client().Certificates[0].Leaf.SerialNumber) })
		}
		calling.Wait()
	}
}

// What a client shows to its user is the reason: in a frame with HTTP/2, in an answer with HTTP/1.
func TestListener_RefusesPlainHTTPWithAReason(t *testing.T) {
	for name, request := range map[string]string{"HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1": "GET /healthz HTTP/1.1\r\n\r\n"} {
		plain, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ln := load(t, ca(t, certs.Valid), conclave.RoleMeta).Listener(plain, false)
		defer ln.Close()
		served := make(chan error, 1)
		go func() {
			conn, err := ln.Accept()
			if err == nil {
				err = conn.(*tls.Conn).HandshakeContext(t.Context())
				conn.Close()
			}
			served <- err
		}()
		conn, err := net.Dial("tcp", plain.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, request)
		require.NoError(t, err)
		answer, _ := io.ReadAll(conn)
		assert.Contains(t, string(answer), "this port uses TLS", name)
		assert.Error(t, <-served, name)
	}
}

// New connections find valid certificates at every moment while the files are
// replaced: by good ones, and by some that cannot be used.
func TestSet_RotationUnderLoadRefusesNoConnection(t *testing.T) {
	dir := ca(t, certs.Valid)
	var reloads atomic.Int64
	report := func(err error) { reloads.Add(1) }
	server, err := certs.Load(filepath.Join(dir, "meta"), conclave.RoleMeta, report)
	require.NoError(t, err)
	client, err := certs.Load(filepath.Join(dir, "session"), conclave.RoleSession, report)
	require.NoError(t, err)
	server.LookAlways()
	client.LookAlways()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln := server.Listener(plain, true)
	var serving, dialling sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			})
		}
	})
	stop := make(chan struct{})
	made := make([]int, 4)
	for i := range made {
		dialling.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				conn, err := tls.Dial("tcp", plain.Addr().String(), client.ToNodes())
				if !assert.NoError(t, err) {
					return
				}
				_, err = conn.Write([]byte("x"))
				assert.NoError(t, err)
				_, err = io.ReadFull(conn, make([]byte, 1))
				assert.NoError(t, err)
				conn.Close()
				made[i]++
			}
		})
	}
	for i := range 20 {
		valid := certs.Valid
		if i%5 == 4 {
			valid = -time.Minute // ended: they replace nothing
		}
		before := reloads.Load()
		require.NoError(t, certs.Issue(dir, []string{"127.0.0.1"}, valid))
		for deadline := time.Now().Add(10 * time.Second); reloads.Load() == before && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond) // until a connection has read them
		}
	}
	close(stop)
	dialling.Wait()
	ln.Close()
	serving.Wait()
	assert.NotContains(t, made, 0)
}

func TestIssue_RefusesWhatIsNoHost(t *testing.T) {
	dir := ca(t, time.Hour)
	for _, host := range []string{"bad host!", "", "a:9615", "10.0.0.300", "-a", "a-", "a..b", "a.", "*", "http://a"} {
		assert.ErrorIs(t, certs.Issue(dir, []string{"localhost", host}, time.Hour), certs.ErrHost, host)
	}
	for _, host := range []string{"a", "10.0.0.3", "::1", "meta-1", "db_1", "a1.b-2.example", "*.example.com", "3com.com"} {
		assert.NoError(t, certs.Issue(dir, []string{host}, time.Hour), host)
	}
}
