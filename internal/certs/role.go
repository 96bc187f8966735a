package certs

import (
	"crypto/tls"
	"crypto/x509"
	"slices"

	"conclave"
)

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
