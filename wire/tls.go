package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

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
	var record tls.RecordHeaderError
	if errors.As(err, &record) {
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
