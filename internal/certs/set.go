package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"conclave"
)

// The files of a folder of certificates, in PEM.
const (
	CAFile         = "ca.pem"         // the CAs that peers are verified against, one or more
	CertFile       = "node.pem"       // a node's certificate, and intermediate ones
	KeyFile        = "node-key.pem"   // its private key
	ClientCertFile = "client.pem"     // the same of a client, which may lack both
	ClientKeyFile  = "client-key.pem" // likewise
)

// lookEvery is the time after which a new connection makes the files be read
// again.
const lookEvery = time.Second

// Set is the certificates of one process. Its methods may be called at the same
// time.
type Set struct {
	dir    string
	names  [3]string     // of the files: CAs, certificate, key
	role   conclave.Role // that the certificate must have; "" for a client
	report func(error)   // see Load

	loaded atomic.Pointer[material]
	failed atomic.Uint64
	every  time.Duration // lookEvery
	began  time.Time
	next   atomic.Int64 // time after began from which the files are read again

	reading chan struct{} // has room for the one caller that reads the files
	refused *material     // what was refused last, so that it is reported once; that caller's
}

// material is the content of the files at one time.
type material struct {
	files [3][]byte // as Set.names
	cas   *x509.CertPool
	cert  *tls.Certificate // nil: a client without a certificate
}

// Load reads the folder of a node of that role. With role "" it is the folder of
// a client, which may lack a certificate of its own. From then on the files are
// read again before new connections; report is called when the certificates have
// been replaced (nil), and with an error when the files cannot be used and the old
// ones stay.
func Load(dir string, role conclave.Role, report func(error)) (*Set, error) {
	s := &Set{dir: dir, names: [3]string{CAFile, CertFile, KeyFile}, role: role, report: report, every: lookEvery, began: time.Now(), reading: make(chan struct{}, 1)}
	if role == "" {
		s.names = [3]string{CAFile, ClientCertFile, ClientKeyFile}
	}
	m, err := s.read()
	if err == nil {
		err = s.parse(m)
	}
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	s.loaded.Store(m)
	s.next.Store(int64(s.every))
	return s, nil
}

// Failed returns how many contents of the files were refused.
func (s *Set) Failed() uint64 { return s.failed.Load() }

// Expires returns when the certificate in use ends, or the zero time if there is
// none.
func (s *Set) Expires() time.Time {
	if m := s.loaded.Load(); m.cert != nil {
		return m.cert.Leaf.NotAfter
	}
	return time.Time{}
}

// current returns the newest valid certificates. One caller in lookEvery reads
// the files, and those that come meanwhile wait for it: after a quiet time what is
// loaded may be older than a CA that the other side was given since.
func (s *Set) current() *material {
	if s.due() {
		s.reading <- struct{}{}
		if began := time.Since(s.began); s.due() {
			s.reload()
			s.next.Store(int64(began + s.every))
		}
		<-s.reading
	}
	return s.loaded.Load()
}

// due reports whether lookEvery has passed since the files were read.
func (s *Set) due() bool { return int64(time.Since(s.began)) >= s.next.Load() }

// reload reads the files and uses them if they have changed and are valid.
func (s *Set) reload() {
	m, err := s.read()
	if err == nil && m.same(s.loaded.Load()) {
		s.refused = nil
		return
	}
	if err == nil {
		err = s.parse(m)
	}
	switch {
	case err == nil:
		s.refused = nil
		s.loaded.Store(m)
		s.report(nil)
	case s.refused == nil || !m.same(s.refused):
		s.refused = m
		s.failed.Add(1)
		s.report(fmt.Errorf("certificates: %w", err))
	}
}

// read returns the content of the files, and an error if one cannot be read. A
// client's certificate may be missing.
func (s *Set) read() (*material, error) {
	m := &material{}
	var errs []error
	for i, name := range s.names {
		body, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil && (i == 0 || s.role != "" || !errors.Is(err, os.ErrNotExist)) {
			errs = append(errs, err)
		}
		m.files[i] = body
	}
	return m, errors.Join(errs...)
}

// parse checks the content of the files and completes m.
func (s *Set) parse(m *material) error {
	m.cas = x509.NewCertPool()
	if !m.cas.AppendCertsFromPEM(m.files[0]) {
		return fmt.Errorf("%s has no CA certificate in PEM", filepath.Join(s.dir, CAFile))
	}
	if s.role == "" && len(m.files[1]) == 0 && len(m.files[2]) == 0 {
		return nil
	}
	file := filepath.Join(s.dir, s.names[1])
	cert, err := tls.X509KeyPair(m.files[1], m.files[2])
	if err != nil {
		return fmt.Errorf("%s and %s: %w", file, s.names[2], err)
	}
	between := x509.NewCertPool()
	for _, der := range cert.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: m.cas, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		return fmt.Errorf("%s is not valid with %s: %w", file, CAFile, err)
	}
	if s.role != "" && !hasRole(cert.Leaf, s.role) {
		return fmt.Errorf("%s has the names %.256q: the certificate of a %s node needs %q", file, cert.Leaf.DNSNames, s.role, RoleName(s.role))
	}
	m.cert = &cert
	return nil
}

// same reports whether the files have the same content.
func (m *material) same(o *material) bool {
	for i := range m.files {
		if !bytes.Equal(m.files[i], o.files[i]) {
			return false
		}
	}
	return true
}

// Client returns the settings of a new connection to another process, which must
// have a certificate of the CAs for the address that is dialled.
func (s *Set) Client() *tls.Config {
	m := s.current()
	c := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: m.cas}
	if m.cert != nil {
		c.Certificates = []tls.Certificate{*m.cert}
	}
	return c
}

// ToNodes is Client for nodes, which call only nodes: the certificate of the
// other side must name a role.
func (s *Set) ToNodes() *tls.Config {
	c := s.Client()
	c.VerifyConnection = func(state tls.ConnectionState) error {
		if !PeerHasRole(&state, conclave.RoleMeta, conclave.RoleSession, conclave.RoleData) {
			return fmt.Errorf("the certificate of %s has the names %.256q: that of a node needs one like %q", state.ServerName, state.PeerCertificates[0].DNSNames, RoleName(conclave.RoleMeta))
		}
		return nil
	}
	return c
}

// Listener returns a listener whose connections use TLS. A certificate of the
// other side is verified if it has one, which all must have if mutual is set.
// Package serve decides which calls need one with a role.
func (s *Set) Listener(ln net.Listener, mutual bool) net.Listener {
	clients := tls.VerifyClientCertIfGiven
	if mutual {
		clients = tls.RequireAndVerifyClientCert
	}
	return tls.NewListener(plainRefuser{ln}, &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			m := s.current()
			return &tls.Config{
				MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*m.cert}, NextProtos: []string{"h2", "http/1.1"},
				ClientAuth: clients, ClientCAs: m.cas, SessionTicketsDisabled: true,
			}, nil
		},
	})
}

// suffix follows the role in the DNS name that makes a certificate that of a
// node: meta.conclave, session.conclave, data.conclave.
const suffix = ".conclave"

// RoleName returns the DNS name that a node of this role must have among the
// subject alternative names of its certificate.
func RoleName(role conclave.Role) string { return string(role) + suffix }

// hasRole reports whether the certificate names one of these roles.
func hasRole(cert *x509.Certificate, roles ...conclave.Role) bool {
	return slices.ContainsFunc(roles, func(r conclave.Role) bool { return slices.Contains(cert.DNSNames, RoleName(r)) })
}

// PeerHasRole reports whether the other side of a connection has shown a
// certificate that the CAs verify, and that names one of these roles.
func PeerHasRole(state *tls.ConnectionState, roles ...conclave.Role) bool {
	return len(state.VerifiedChains) > 0 && hasRole(state.VerifiedChains[0][0], roles...)
}
