package sql

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"
)

// The parameters of a DSN that this package adds to the driver's tls. Their values
// are paths; a slash in them may be escaped as %2F.
const (
	paramCA   = "tlsCA"   // PEM: the CAs that the server's certificate is verified against
	paramCert = "tlsCert" // PEM: a certificate for this client
	paramKey  = "tlsKey"  // PEM: its key
)

// verifyCA is the value of tls that accepts each certificate of the CAs, whatever
// host it names, as MySQL's mode VERIFY_CA does.
const verifyCA = "verify-ca"

// security is what a DSN says of TLS beyond the driver's own parameters.
type security struct {
	ca, cert, key string // files
	anyHost       bool   // with verifyCA
	cas           atomic.Pointer[x509.CertPool]
	pair          atomic.Pointer[tls.Certificate]
}

// takeSecurity removes the parameters of a security from a DSN. It returns the rest
// and nil if there is none of them.
func takeSecurity(dsn string) (rest string, s *security, err error) {
	at := strings.LastIndexByte(dsn, '?')
	if at < strings.LastIndexAny(dsn, "@)") {
		return dsn, nil, nil // it is part of the password
	}
	s = &security{}
	mode, found := "", false
	var kept []string
	for _, param := range strings.Split(dsn[at+1:], "&") {
		name, value, _ := strings.Cut(param, "=")
		file := map[string]*string{paramCA: &s.ca, paramCert: &s.cert, paramKey: &s.key}[name]
		switch {
		case file != nil:
			if *file, err = url.QueryUnescape(value); err != nil || *file == "" {
				return "", nil, fmt.Errorf("%w: parameter %s: want a file", ErrBadDSN, name)
			}
			found = true
		case name == "tls" && value == verifyCA:
			mode, found = value, true
		case name == "tls":
			mode = value
			kept = append(kept, param)
		default:
			kept = append(kept, param)
		}
	}
	if !found {
		return dsn, nil, nil
	}
	s.anyHost = mode == verifyCA
	switch {
	case mode != "" && mode != verifyCA && mode != "true":
		return "", nil, fmt.Errorf("%w: %s needs tls=true (the default then) or tls=%s", ErrBadDSN, paramCA, verifyCA)
	case s.ca == "":
		return "", nil, fmt.Errorf("%w: tls=%s, %s and %s need %s", ErrBadDSN, verifyCA, paramCert, paramKey, paramCA)
	case (s.cert == "") != (s.key == ""):
		return "", nil, fmt.Errorf("%w: want both %s and %s, or none", ErrBadDSN, paramCert, paramKey)
	}
	rest = dsn[:at]
	if len(kept) > 0 {
		rest += "?" + strings.Join(kept, "&")
	}
	return rest, s, nil
}

// secure makes the connections of a configuration use TLS. The files are read now,
// and again for each connection, so that they can be renewed; a content that cannot
// be used then leaves the last one in use.
func (s *security) secure(config *mysql.Config) error {
	if config.Net == "unix" {
		return fmt.Errorf("%w: %s with a unix socket: want a server on TCP", ErrBadDSN, paramCA)
	}
	if err := errors.Join(s.readCAs(), s.readPair()); err != nil {
		return fmt.Errorf("%w: %w", ErrBadDSN, err)
	}
	config.TLSConfig = ""
	config.TLS = &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // verify does it, with the CAs of the moment
		VerifyConnection:   func(state tls.ConnectionState) error { return s.verify(state, config.Addr) },
	}
	if s.cert != "" {
		config.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			_ = s.readPair() // the last one stays
			return s.pair.Load(), nil
		}
	}
	return nil
}

// errCertificate reports that a server's certificate is not accepted. Nothing was
// sent to the server, and its certificate, or the CAs, may be replaced.
var errCertificate = errors.New("certificate of the database is not accepted")

// verify checks the certificate of a server at an address.
func (s *security) verify(state tls.ConnectionState, addr string) error {
	_ = s.readCAs() // the last ones stay
	between := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		between.AddCert(c)
	}
	opts := x509.VerifyOptions{Roots: s.cas.Load(), Intermediates: between}
	if !s.anyHost {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return err
		}
		opts.DNSName = host
	}
	if _, err := state.PeerCertificates[0].Verify(opts); err != nil {
		return fmt.Errorf("%w at %s: %w", errCertificate, addr, err)
	}
	return nil
}

// readCAs uses the CAs in the file.
func (s *security) readCAs() error {
	text, err := os.ReadFile(s.ca)
	if err != nil {
		return fmt.Errorf("%s: %w", paramCA, err)
	}
	cas := x509.NewCertPool()
	if !cas.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s: %s has no certificate in PEM", paramCA, s.ca)
	}
	s.cas.Store(cas)
	return nil
}

// readPair uses the client's certificate in the files, if there is one.
func (s *security) readPair() error {
	if s.cert == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(s.cert, s.key)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", paramCert, paramKey, err)
	}
	s.pair.Store(&pair)
	return nil
}
