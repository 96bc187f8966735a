package hostile_test

import (
	"context"
	"crypto/tls"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/certs"
)

// secured are the nodes that are attacked.
var secured = []string{"meta-1", "data-1", "session-1", "session-2"}

// unverified returns the settings of an attacker, who has no certificate and verifies
// none.
func unverified() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}
}

// record returns the header of a record of TLS that has a length, and this beginning.
func record(kind byte, length int, beginning string) string {
	return string([]byte{kind, 3, 1, byte(length >> 8), byte(length)}) + beginning
}

// handshakesInPart begins handshakes and does not go on, until the node ends them.
func handshakesInPart(ctx context.Context, t *testing.T, w *target) {
	beginnings := []string{"", "\x16", record(22, 512, "\x01\x00\x01\xfc\x03\x03"), record(22, 1<<14, "\x01\xff\xff\xff"), record(23, 1<<14, "x")}
	var seen endings
	each(400, func(i int) {
		c := dial(ctx, w.at[secured[i%4]])
		if c == nil {
			return
		}
		defer c.Close()
		seen.add(func() bool {
			_, _ = io.WriteString(c, beginnings[i/4%len(beginnings)])
			_ = c.SetReadDeadline(time.Now().Add(4 * headerLimit)) // a connection cannot refuse it
			_, err := io.Copy(io.Discard, c)
			return err == nil || !isTimeout(err)
		})
	})
	seen.check(t, 400, "a handshake")
}

// withoutTLS sends what is no handshake of TLS 1.3.
func withoutTLS(ctx context.Context, t *testing.T, w *target) {
	ctx, end := lasting(ctx, time.Second)
	defer end()
	beginnings := []string{
		"GET /v1/leader HTTP/1.1\r\nHost: localhost\r\n\r\n", preface + settings(), "SSH-2.0-x\r\n", record(22, 64, string(make([]byte, 64))), record(21, 2, "\x02\x28"),
		record(22, 1<<14+300, string(make([]byte, 1<<14+300))),
	}
	each(12, func(i int) {
		for n := 0; ctx.Err() == nil; n++ {
			c := dial(ctx, w.at[secured[i%4]])
			if c == nil {
				continue
			}
			_ = c.SetDeadline(time.Now().Add(time.Second))
			if which := n % (len(beginnings) + 2); which < len(beginnings) {
				_, _ = io.WriteString(c, beginnings[which])
				answer, _ := io.ReadAll(c)
				assert.NotContains(t, string(answer), "200 OK")
			} else {
				old := unverified()
				old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS10+uint16(2*(which-len(beginnings)))
				assert.Error(t, tls.Client(c, old).HandshakeContext(ctx), "TLS 1.0 and 1.2")
			}
			c.Close()
		}
	})
}

// thousandsOfHandshakes completes handshakes, and asks for nothing.
func thousandsOfHandshakes(ctx context.Context, t *testing.T, w *target) {
	ctx, end := lasting(ctx, 2*time.Second)
	defer end()
	var done atomic.Int64
	each(16, func(i int) {
		for ctx.Err() == nil {
			if c := dial(ctx, w.at[secured[i%4]]); c != nil {
				if tls.Client(c, unverified()).HandshakeContext(ctx) == nil {
					done.Add(1)
				}
				c.Close()
			}
		}
	})
	t.Logf("%d handshakes", done.Load())
	assert.NotZero(t, done.Load())
}

// foreignCertificates shows certificates of roles that another CA has issued.
func foreignCertificates(ctx context.Context, t *testing.T, w *target) {
	dir := t.TempDir()
	require.NoError(t, certs.NewCA(dir, time.Hour))
	require.NoError(t, certs.Issue(dir, []string{attackerIP}, time.Hour))
	own, err := tls.LoadX509KeyPair(dir+"/meta/"+certs.CertFile, dir+"/meta/"+certs.KeyFile)
	require.NoError(t, err)
	ctx, end := lasting(ctx, time.Second)
	defer end()
	each(8, func(i int) {
		for ctx.Err() == nil {
			c := dial(ctx, w.at[secured[i%4]])
			if c == nil {
				continue
			}
			_ = c.SetDeadline(time.Now().Add(time.Second))
			cfg := unverified()
			cfg.Certificates, cfg.NextProtos = []tls.Certificate{own}, nil
			s := tls.Client(c, cfg)
			_, _ = io.WriteString(s, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
			answer, err := io.ReadAll(s) // with TLS 1.3 the refusal comes after the client's handshake
			assert.Error(t, err)
			assert.Empty(t, answer)
			c.Close()
		}
	})
}
