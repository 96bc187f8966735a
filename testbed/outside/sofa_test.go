package outside

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/client"
	"conclave/session/sofa"
)

// sofaSession is the network of one session, which answers each register, but not those that
// withdraw.
type sofaSession struct {
	net.ListenConfig
	t        *testing.T
	conns    []net.Conn // of both sides
	received []string   // the registers of the last connection, by id
}

// DialContext implements wire.Network.
func (s *sofaSession) DialContext(_ context.Context, _, address string) (net.Conn, error) {
	mine, theirs := net.Pipe()
	s.conns = append(s.conns, mine, theirs)
	if address == "session-1:9603" {
		go func() {
			_, err := http.ReadRequest(bufio.NewReader(mine))
			assert.NoError(s.t, err)
			_, _ = io.WriteString(mine, "HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\nsession-1:9600")
		}()
		return theirs, nil
	}
	s.received = nil
	go func() {
		for {
			f, err := sofa.ReadFrame(mine)
			if err != nil {
				return
			}
			v, err := sofa.Decode(f.Content)
			assert.NoError(s.t, err)
			r, _ := v.(*sofa.Object)
			id := field(r, "registId")
			if s.received = append(s.received, id.(string)); field(r, "eventType") == "UNREGISTER" {
				continue
			}
			answer := sofaObject(sofaModel+"RegisterResponse", "success registId version refused message", true, id, field(r, "version"), false, nil)
			_, _ = mine.Write(sofa.Frame{Command: 2, ID: f.ID, Codec: 1, Class: answer.Class.Name, Content: sofa.Encode(answer)}.Append(nil))
		}
	}()
	return theirs, nil
}

// The client for Java sends what comes after a register that is not answered, too: a session
// would remove it otherwise.
func TestSofaClient_AWithdrawalThatWaitsKeepsNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sofaSession{t: t}
		c := NewSofaClient(client.Config{Name: "c", Sessions: []string{"session-1:9603"}, Rand: rand.New(rand.NewPCG(1, 2)), Network: s}, func() {})
		defer c.Kill()
		first, err := c.Publish(t.Context(), "a", []string{"1"})
		require.NoError(t, err)
		_, err = c.Publish(t.Context(), "a", []string{"2"})
		require.NoError(t, err)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []string{"c-1", "c-2"}, s.received)
		require.NoError(t, first.Withdraw())
		time.Sleep(time.Second / 2)
		synctest.Wait()
		for _, conn := range s.conns {
			_ = conn.Close()
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.GreaterOrEqual(t, len(s.received), 4, "the withdrawal comes again")
		assert.Equal(t, []string{"c-1", "c-2", "c-1"}, s.received[:3])
		assert.NotContains(t, slices.Delete(slices.Clone(s.received), 1, 2), "c-2", "it was answered")
	})
}
