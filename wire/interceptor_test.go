package wire

import (
	"context"
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/slot"
)

// answeredStream is a stream whose peer has a table of this epoch.
type answeredStream struct {
	connect.StreamingClientConn // nil: its other methods are not called
	table                       string
}

func (s answeredStream) Peer() connect.Peer         { return connect.Peer{Addr: "data-1:9622"} }
func (s answeredStream) RequestHeader() http.Header { return http.Header{} }
func (s answeredStream) Receive(any) error          { return nil }
func (s answeredStream) ResponseHeader() http.Header {
	return http.Header{http.CanonicalHeaderKey(headerTable): {s.table}}
}

// With the first answer of a stream the tables are compared, as with that of a call.
func TestInterceptor_StreamComparesTheTablesOnce(t *testing.T) {
	view := NewView()
	view.Set(State{Table: slot.Table{Epoch: conclave.Epoch{Term: 5, Seq: 5}}})
	for table, want := range map[string]int{"5.6": 1, "5.5": 0, "": 0} {
		var behind []string
		i := &Interceptor{View: view, Behind: func(peer string, _ conclave.Epoch) { behind = append(behind, peer) }}
		open := i.WrapStreamingClient(func(context.Context, connect.Spec) connect.StreamingClientConn { return answeredStream{table: table} })
		conn := open(t.Context(), connect.Spec{})
		for range 2 {
			require.NoError(t, conn.Receive(nil))
		}
		assert.Equal(t, []string{"data-1:9622"}[:want], append([]string{}, behind...), table)
	}
}
