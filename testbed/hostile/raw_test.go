package hostile_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"conclave/wire"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// attackerIP is where the attacks come from. The honest clients have 127.0.0.1.
const attackerIP = "127.0.0.66"

// dialer returns the network of the attacker.
func dialer() *wire.TCP {
	n := wire.NewTCP()
	n.LocalAddr = &net.TCPAddr{IP: net.ParseIP(attackerIP)}
	return n
}

// conn is an attacker's connection that speaks the protocol of clients.
type conn struct{ peers *wire.Peers }

func newConn(token string) conn {
	return conn{wire.NewPeers(dialer(), &wire.Interceptor{Token: func(string) string { return token }}, wire.ClientPingTimeout)}
}

// stream is one Connect call.
type stream struct {
	*connect.BidiStreamForClient[wirev1.ClientMessage, wirev1.ServerMessage]
	cancel context.CancelFunc
}

// open opens a stream and sends a hello. It does not wait for the welcome.
func (c conn) open(ctx context.Context, session, name string) stream {
	ctx, cancel := context.WithCancel(ctx)
	s := stream{c.peers.Client(session).Connect(ctx), cancel}
	_ = s.Send(&wirev1.ClientMessage{Hello: &wirev1.ClientHello{Client: name, Name: name}})
	return s
}

// until receives until fits returns true or the stream ends.
func (s stream) until(fits func(*wirev1.ServerMessage) bool) error {
	for {
		m, err := s.Receive()
		if err != nil {
			return wire.FromConnect(err)
		}
		if fits(m) {
			return nil
		}
	}
}

// dial opens a TCP connection, nil if it is refused.
func dial(ctx context.Context, address string) net.Conn {
	c, err := dialer().DialContext(ctx, "tcp", address)
	if err != nil {
		return nil
	}
	return c
}

// Frames of HTTP/2, made by hand: the attacks are what a client of a library does not
// do.
const (
	frameData, frameHeaders, frameReset, frameSettings, framePing, frameWindowUpdate, frameContinuation = 0, 1, 3, 4, 6, 8, 9
	flagEndStream, flagEndHeaders                                                                       = 1, 4
)

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

func frame(kind, flags byte, id uint32, payload string) string {
	b := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	return string(binary.BigEndian.AppendUint32(b, id)) + payload
}

// settings returns a frame of settings: pairs of identifier and value.
func settings(pairs ...uint32) string {
	var b []byte
	for p := range slices.Chunk(pairs, 2) {
		b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(b, uint16(p[0])), p[1])
	}
	return frame(frameSettings, 0, 0, string(b))
}

// fields returns header fields as literals, of less than 127 bytes each.
func fields(pairs ...string) (out string) {
	for _, p := range pairs {
		name, value, _ := strings.Cut(p, "= ")
		out += "\x00" + string(rune(len(name))) + name + string(rune(len(value))) + value
	}
	return out
}

// connectFields are those of a call of Connect.
func connectFields(token string) string {
	return fields(":method= POST", ":scheme= http", ":path= "+wirev1connect.ClientServiceConnectProcedure, ":authority= localhost",
		"content-type= application/connect+proto", "connect-protocol-version= 1", "authorization= Bearer "+token)
}

// enveloped returns a message as Connect frames it.
func enveloped(flags byte, b []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(b))), b...)
}

// post sends a body to a procedure over HTTP/1.1, and returns the answer's status; 0:
// there was none.
func post(ctx context.Context, address, path, token string, header http.Header, body io.Reader) int {
	transport := &http.Transport{DialContext: dialer().DialContext, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+path, body)
	if err != nil {
		return 0
	}
	for name, values := range header {
		req.Header[name] = values
	}
	wire.SetToken(req.Header, token)
	res, err := transport.RoundTrip(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// call sends a body to a session as a stream of Connect, until it is answered or ctx
// ends.
func call(ctx context.Context, session, token string, header http.Header, body io.Reader) {
	c := newConn(token)
	defer c.peers.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+session+wirev1connect.ClientServiceConnectProcedure, body)
	if err != nil {
		return
	}
	for name, values := range header {
		req.Header[name] = values
	}
	wire.SetToken(req.Header, token)
	if res, err := c.peers.HTTP().Do(req); err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
}

// each runs f n times at once, and waits.
func each(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// eachStream is each, with a stream of its own to session-1.
func (w *target) eachStream(ctx context.Context, n int, f func(i int, s stream)) {
	each(n, func(i int) {
		c := newConn(malloryToken)
		defer c.peers.Close()
		s := c.open(ctx, w.at["session-1"], name(i))
		defer s.cancel()
		f(i, s)
	})
}

// dataInfo returns the DataInfoID of a dataId.
func dataInfo(id string) string { return id + "#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP" }

// lasting returns a context for an attack.
func lasting(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

func name(i int) string { return fmt.Sprint("hostile-", i) }
