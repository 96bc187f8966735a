package outside

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "conclave/internal/bubble"
	"conclave/testbed"
)

// A meta that is suspended takes connections and does not answer.
func TestOperate_AsksTheNextMetaWhenOneDoesNotAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		suspended map[string]bool
		took      time.Duration
		done      bool
	}{
		"the leader is suspended": {map[string]bool{"meta-2:1": true}, commandWait, true},
		"all are suspended":       {map[string]bool{"meta-1:1": true, "meta-2:1": true}, 2 * commandWait, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dial := func(_ context.Context, _, address string) (net.Conn, error) {
					here, there := net.Pipe()
					go func() { // ends when the client closes its end
						defer there.Close()
						in := bufio.NewReader(there)
						if req, err := http.ReadRequest(in); err == nil && !c.suspended[address] {
							_, _ = io.Copy(io.Discard, req.Body)
							_, _ = io.WriteString(there, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
						}
						_, _ = io.Copy(io.Discard, in)
					}()
					return here, nil
				}
				v := &View{
					Nodes: func() map[string]string { return map[string]string{"meta-1": "meta-1:1", "meta-2": "meta-2:1"} },
					HTTP:  HTTP(dial, nil), Token: func() string { return "" },
				}
				leader := "meta-2"
				v.seen.Store(&leader)
				began := time.Now()
				done, err := v.Operate(t.Context(), testbed.Action{Verb: testbed.Forbid, Node: "data-1"})
				require.True(t, done)
				assert.Equal(t, c.done, err == nil, err)
				assert.Equal(t, c.took, time.Since(began))
			})
		})
	}
}
