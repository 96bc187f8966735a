package wire

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"conclave"
)

// RouterConfig is what every role's port needs besides the role's own paths.
type RouterConfig struct {
	Node    conclave.NodeID
	Role    conclave.Role
	Version string
	Token   string               // "" : changing requests need none
	Metrics *prometheus.Registry // served at /metrics
	Events  *Events              // served at /v1/events
	// Ready says whether the node serves, and why not (or why only partly).
	Ready func() (bool, []string)
}

// NewRouter is the routing table that all roles share; each adds its own paths
// and mounts its Connect services on it.
func NewRouter(c RouterConfig) *mux.Router {
	r := mux.NewRouter()
	r.Use(limitBody, requireToken(c.Token))
	r.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		WriteJSON(w, http.StatusOK, map[string]any{"name": c.Node.Name, "role": c.Role, "incarnation": c.Node.Incarnation})
	}).Methods(http.MethodGet)
	r.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		ready, reasons := c.Ready()
		if reasons == nil {
			reasons = []string{}
		}
		status := http.StatusOK
		if !ready {
			status = http.StatusServiceUnavailable
		}
		WriteJSON(w, status, map[string]any{"reasons": reasons})
	}).Methods(http.MethodGet)
	r.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) {
		WriteJSON(w, http.StatusOK, map[string]any{"version": c.Version})
	}).Methods(http.MethodGet)
	r.Handle("/metrics", promhttp.HandlerFor(c.Metrics, promhttp.HandlerOpts{})).Methods(http.MethodGet)
	r.Handle("/v1/events", c.Events).Methods(http.MethodGet)
	r.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		WriteError(w, Errorf(CodeNotFound, "no such path: %s", q.URL.Path))
	})
	r.MethodNotAllowedHandler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		e := Errorf(CodeBadRequest, "%s is not answered at %s", q.Method, q.URL.Path)
		writeErrorStatus(w, http.StatusMethodNotAllowed, e)
	})
	return r
}

// Mount puts a Connect service, as its generated constructor returns it, on the
// router.
func Mount(r *mux.Router, path string, h http.Handler) {
	r.PathPrefix(path).Handler(h)
}

// HandlerOptions are what every Connect service between roles is made with. What
// a client may send in one request fits several times into one between roles, so
// that nothing that was accepted can get stuck behind it.
func HandlerOptions(i *Interceptor) connect.HandlerOption {
	return handlerOptions(i, 4*conclave.MaxRequest)
}

// ClientHandlerOptions are those of the service for clients. They are no peers,
// and need no token to subscribe: what their headers say of terms and tables is
// not listened to.
func ClientHandlerOptions() connect.HandlerOption {
	return handlerOptions(&Interceptor{}, conclave.MaxRequest)
}

func handlerOptions(i *Interceptor, limit int) connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithInterceptors(i),
		connect.WithReadMaxBytes(limit),
		connect.WithRecover(func(_ context.Context, _ connect.Spec, _ http.Header, v any) error {
			return ToConnect(Errorf(CodeInternal, "a handler panicked: %v", v))
		}),
	)
}

// ClientService's path is the one place where reading needs no token: a client
// may subscribe without, and is refused when it registers.
const clientServicePath = "/conclave.v1.ClientService/"

// requireToken asks for the token wherever something may be changed: every
// method but GET and HEAD.
func requireToken(token string) mux.MiddlewareFunc {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			reads := r.Method == http.MethodGet || r.Method == http.MethodHead || strings.HasPrefix(r.URL.Path, clientServicePath)
			if !reads && !Authorized(r.Header, token) {
				WriteError(w, Errorf(CodeUnauthorized, "this request needs the header Authorization: Bearer TOKEN"))
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// Authorized says whether the headers show the token; without a token
// everybody is.
func Authorized(h http.Header, token string) bool {
	if token == "" {
		return true
	}
	shown, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(shown), []byte(token)) == 1
}

// WriteJSON answers with one document.
func WriteJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(body) // the client is gone: nobody is left to tell
}

// WriteError answers with {error:{code, message, details}} and a fitting status.
func WriteError(w http.ResponseWriter, err error) {
	var e *Error
	if !errors.As(err, &e) {
		e = Errorf(CodeInternal, "%v", err)
	}
	writeErrorStatus(w, e.Status(), e)
}

func writeErrorStatus(w http.ResponseWriter, status int, e *Error) {
	details := map[string]any{}
	if e.Leader != "" {
		details["leader"], details["address"] = e.Leader, e.Address
	}
	if !e.Epoch.IsZero() {
		details["epoch"] = e.Epoch
	}
	WriteJSON(w, status, map[string]any{"error": map[string]any{"code": e.Code, "message": e.Message, "details": details}})
}
