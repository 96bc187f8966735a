package serve

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gorilla/mux"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A proxy's transport may read a body to its end when the handler has returned. Over
// HTTP/2 there is no response any more then whose deadline could be lifted.
func TestLimitBody_IsReadWhenTheHandlerHasReturned(t *testing.T) {
	bodies := make(chan io.Reader, 1)
	router := mux.NewRouter()
	router.Use(limitBody)
	router.HandleFunc("/v1/proxied", func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadFull(r.Body, make([]byte, 1)) // so that the body has arrived before the handler returns
		assert.NoError(t, err)
		bodies <- r.Body
	})
	server := httptest.NewUnstartedServer(router)
	server.EnableHTTP2 = true
	server.StartTLS()
	w, err := server.Client().Post(server.URL+"/v1/proxied", "text/plain", strings.NewReader("all of it"))
	require.NoError(t, err)
	require.NoError(t, w.Body.Close())
	assert.Equal(t, 2, w.ProtoMajor)
	server.Close() // the handler has returned
	text, err := io.ReadAll(<-bodies)
	require.NoError(t, err)
	assert.Equal(t, "ll of it", string(text))
}
