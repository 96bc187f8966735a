package node

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"conclave"

	_ "conclave/internal/bubble"
)

// Each of as many clients as may be connected, in all and from one address, has a
// request that lasts, and may ping by another.
func TestPlaces_RequestsAreTwiceTheConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{Node: conclave.NodeID{Name: "session-1"}, MaxConnections: 4, MaxAddressConnections: 3}.WithDefaults(), conclave.RoleSession)
		_, requests := b.places()
		end := make(chan struct{})
		handler := requests.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
		send := func(address string, n int) {
			for range n {
				req := httptest.NewRequest(http.MethodPost, "/", nil)
				req.RemoteAddr = address + ":1234"
				go handler.ServeHTTP(httptest.NewRecorder(), req)
			}
			synctest.Wait()
		}
		send("192.0.2.1", 6)
		assert.Zero(t, requests.Refused())
		send("192.0.2.1", 1)
		assert.EqualValues(t, 1, requests.Refused())
		send("192.0.2.2", 2)
		assert.EqualValues(t, 1, requests.Refused())
		send("192.0.2.3", 1)
		assert.EqualValues(t, 2, requests.Refused())
		close(end)
	})
}
