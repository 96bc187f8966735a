package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"slices"

	"conclave"
)

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
