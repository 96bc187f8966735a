package wiretap_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	"conclave/sql"
	"conclave/testbed/console/journal"
	"conclave/testbed/simulated/wiretap"
	wirev1 "conclave/wire/v1"
)

const (
	clientEnd = "client-1:40001"
	serverEnd = "session-1:9603"
)

// http makes the bytes of one direction of a connection over HTTP/2.
type http struct {
	bytes.Buffer
	framer  *http2.Framer
	encoder *hpack.Encoder
	headers bytes.Buffer
}

func newHTTP() *http {
	h := &http{}
	h.framer = http2.NewFramer(h, nil)
	h.encoder = hpack.NewEncoder(&h.headers)
	return h
}

func (h *http) head(t *testing.T, stream uint32, end bool, fields ...string) {
	h.headers.Reset()
	for i := 0; i < len(fields); i += 2 {
		require.NoError(t, h.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	require.NoError(t, h.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: h.headers.Bytes(), EndHeaders: true, EndStream: end}))
}

func (h *http) data(t *testing.T, stream uint32, end bool, b []byte) {
	require.NoError(t, h.framer.WriteData(stream, end, b))
}

// envelope returns a message as one of a Connect stream.
func envelope(t *testing.T, flags byte, m any) []byte {
	b, ok := m.([]byte)
	if !ok {
		var err error
		b, err = proto.Marshal(m.(proto.Message))
		require.NoError(t, err)
	}
	return append([]byte{flags, 0, byte(len(b) >> 16), byte(len(b) >> 8), byte(len(b))}, b...)
}

// heard returns what a tap names in the bytes that each end sends, which arrive in
// writes of that many bytes.
func heard(tap *wiretap.Tap, from, to string, data []byte, write int) (out []string, bytes int) {
	for len(data) > 0 {
		n := min(write, len(data))
		for _, m := range tap.Sent(from, to, data[:n]) {
			bytes += m.Bytes
			if what := fmt.Sprint(m.Conn, "/", m.Stream, " ", []string{"request", "answer", "transport"}[m.Kind], " ", m.What()); len(m.Details) > 0 || len(out) == 0 || !strings.HasPrefix(out[len(out)-1], what) {
				out = append(out, what)
			}
		}
		data = data[n:]
	}
	return out, bytes
}

func TestSent_NamesCallsAndStreams(t *testing.T) {
	client, server := newHTTP(), newHTTP()
	client.WriteString(http2.ClientPreface)
	require.NoError(t, client.framer.WriteSettings())
	client.head(t, 1, false, ":path", "/conclave.v1.ClientService/Connect", "content-type", "application/connect+proto")
	client.data(t, 1, false, append(
		envelope(t, 0, &wirev1.ClientMessage{Hello: &wirev1.ClientHello{Name: "x"}}),
		envelope(t, 0, &wirev1.ClientMessage{Publishers: []*wirev1.Publisher{{}, {}}, Unsubscribe: []string{"a"}})...))
	client.head(t, 3, false, ":path", "/conclave.v1.DataService/Write", "content-type", "application/proto")
	client.data(t, 3, true, make([]byte, 300))
	require.NoError(t, client.framer.WriteRSTStream(1, http2.ErrCodeCancel))
	require.NoError(t, server.framer.WritePing(true, [8]byte{}))
	server.head(t, 1, false, ":status", "200", "content-type", "application/connect+proto")
	server.data(t, 1, false, envelope(t, 0, &wirev1.ServerMessage{Pong: 7}))
	server.data(t, 1, true, envelope(t, 2, []byte(`{"error":{"code":"unavailable"}}`)))
	server.head(t, 3, true, ":status", "503")
	want := map[string][]string{
		"client": {"1/0 transport HTTP/2: settings", "1/1 request Connect: hello, publishers, unsubscribe, cancelled", "1/3 request Write"},
		"server": {"1/0 transport HTTP/2: ping", "1/1 answer Connect: pong, ended: unavailable", "1/3 answer Write: HTTP 503"},
	}
	for _, write := range []int{1, 7, 1 << 20} {
		t.Run(fmt.Sprint("in writes of ", write), func(t *testing.T) {
			tap := wiretap.New()
			// The server's answer to a stream needs its call, so the reset is last.
			reset := client.Len() - 13
			got, _ := heard(tap, clientEnd, serverEnd, client.Bytes()[:reset], write)
			answers, _ := heard(tap, serverEnd, clientEnd, server.Bytes(), write)
			last, _ := heard(tap, clientEnd, serverEnd, client.Bytes()[reset:], 1<<20)
			got = append(got, last...)
			if write == 1<<20 {
				assert.Equal(t, want["server"], answers)
			}
			for _, side := range [][2][]string{{got, want["client"]}, {answers, want["server"]}} {
				text := strings.Join(side[0], "\n")
				for _, w := range side[1] {
					call, details, _ := strings.Cut(w, ": ")
					assert.Contains(t, text, call)
					for d := range strings.SplitSeq(details, ", ") {
						assert.Contains(t, text, d)
					}
				}
			}
		})
	}
}

func TestSent_NamesPlainCalls(t *testing.T) {
	tap := wiretap.New()
	got, _ := heard(tap, "operator:40001", "meta-1:9615", []byte("POST /admin/resign HTTP/1.1\r\nHost: x\r\n\r\n"), 1000)
	assert.Equal(t, []string{"1/0 request POST /admin/resign"}, got)
	got, _ = heard(tap, "meta-1:9615", "operator:40001", []byte("HTTP/1.1 409 Conflict\r\n\r\n{}"), 1000)
	assert.Equal(t, []string{"1/0 answer POST /admin/resign: HTTP 409"}, got)
}

func packet(b ...byte) []byte {
	return append([]byte{byte(len(b)), byte(len(b) >> 8), byte(len(b) >> 16), 0}, b...)
}

func TestSent_NamesStatements(t *testing.T) {
	const meta, db = "meta-1:40002", "db:3306"
	for _, s := range []struct{ name, text string }{
		{"look", sql.LockLook}, {"win vacant", sql.LockWinVacant}, {"win own", sql.LockWinOwn}, {"win expired", sql.LockWinExpired}, {"win overdue", sql.LockWinOverdue},
		{"win witness", sql.LockWinWitness}, {"renew", sql.LockRenew}, {"reacquire", sql.LockReacquire}, {"resign", sql.LockResign}, {"write", sql.StateWrite}, {"seal", sql.StateSeal},
		{"take", sql.LockTake}, {"await", sql.LockAwait}, {"release", sql.LockRelease}, {"SELECT something FROM", "SELECT something FROM somewhere"},
	} {
		t.Run(s.name, func(t *testing.T) {
			for _, write := range []int{1, 1 << 20} {
				tap := wiretap.New()
				got, _ := heard(tap, db, meta, packet(10, '8', '.'), 1<<20)
				assert.Equal(t, []string{"1/0 transport MySQL: greeting"}, got)
				got, _ = heard(tap, meta, db, packet(1, 2, 3), 1<<20)
				assert.Equal(t, []string{"1/0 request SQL log in"}, got)
				got, _ = heard(tap, db, meta, packet(0, 0, 0), 1<<20)
				assert.Equal(t, []string{"1/0 answer SQL log in"}, got)
				query := packet(append([]byte{3}, strings.ReplaceAll(s.text, "?", "'a b'")...)...)
				got, n := heard(tap, meta, db, query, write)
				assert.Equal(t, []string{"1/0 request SQL " + s.name}, got)
				assert.Equal(t, len(query), n)
				got, _ = heard(tap, db, meta, packet(0, 1, 0), write)
				assert.Equal(t, []string{"1/0 answer SQL " + s.name + ": 1 changed"}, got)
				_, _ = heard(tap, meta, db, query, write)
				got, _ = heard(tap, db, meta, packet(0xff, 0xbd, 0x04), write)
				assert.Equal(t, []string{"1/0 answer SQL " + s.name + ": error 1213"}, got)
			}
		})
	}
}

// A write with a body that is longer than what is looked at is named too.
func TestSent_NamesLongStatements(t *testing.T) {
	tap := wiretap.New()
	_, _ = heard(tap, "db:3306", "meta-1:40002", packet(10), 100)
	_, _ = heard(tap, "meta-1:40002", "db:3306", packet(1), 100)
	_, _ = heard(tap, "db:3306", "meta-1:40002", packet(0, 0, 0), 100)
	text := strings.Replace(sql.StateWrite, "?", "'"+strings.Repeat("x", 20000)+"'", 1)
	got, _ := heard(tap, "meta-1:40002", "db:3306", packet(append([]byte{3}, text...)...), 1500)
	assert.Equal(t, []string{"1/0 request SQL write"}, got)
}

func TestEnded_NamesTheConnection(t *testing.T) {
	tap := wiretap.New()
	_ = tap.Sent(clientEnd, serverEnd, []byte("PRI"))
	_ = tap.Sent("client-2:40002", serverEnd, []byte("PRI"))
	assert.Equal(t, wiretap.Message{Conn: 2, Kind: journal.Transport, Call: "connection", Details: []string{"closed"}}, tap.Ended("client-2:40002", serverEnd, "closed"))
	assert.Equal(t, wiretap.Message{Conn: 2, Kind: journal.Transport, Call: "connection", Details: []string{"reset"}}, tap.Ended(serverEnd, "client-2:40002", "reset"))
}

// FuzzSent reads any bytes on connections of both kinds.
func FuzzSent(f *testing.F) {
	f.Add([]byte(http2.ClientPreface + "\x00\x00\x04\x01\x04\x00\x00\x00\x01\x82\x84\x86\x41"))
	f.Add(packet(3, 'S', 'E', 'T'))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, to := range []string{serverEnd, "db:3306"} {
			tap := wiretap.New()
			for _, end := range [][2]string{{clientEnd, to}, {to, clientEnd}} {
				_, n := heard(tap, end[0], end[1], b, 5)
				if n < 0 {
					t.Fatal("a negative number of bytes")
				}
			}
		}
	})
}
