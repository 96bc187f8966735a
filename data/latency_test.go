package data_test

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"conclave/wire"
)

// slow is a network on which every message is delayed, so that the phases of a
// hand-over take time and messages of different connections overtake each
// other. Each connection draws its own delays.
type slow struct {
	wire.Network
	max time.Duration

	mu    sync.Mutex // guards the rest
	rand  *rand.Rand
	conns []net.Conn
}

// sever breaks every connection made so far; new ones may be made.
func (s *slow) sever() {
	s.mu.Lock()
	conns := s.conns
	s.conns = nil
	s.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
}

func (s *slow) wrap(c net.Conn) net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, c)
	return &slowConn{Conn: c, max: s.max, rand: rand.New(rand.NewPCG(s.rand.Uint64(), 1))}
}

func (s *slow) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := s.Network.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return s.wrap(c), nil
}

func (s *slow) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	l, err := s.Network.Listen(ctx, network, address)
	return slowListener{l, s}, err
}

type slowListener struct {
	net.Listener
	slow *slow
}

func (l slowListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.slow.wrap(c), nil
}

type slowConn struct {
	net.Conn
	max  time.Duration
	rand *rand.Rand // the one reader's
}

func (c *slowConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		time.Sleep(time.Duration(c.rand.Int64N(int64(c.max))))
	}
	return n, err
}
