package session

import (
	"context"
	"net/http"
	"time"

	"conclave"
	"conclave/wire/serve"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// routes returns the handler of the session's port.
func (s *Server) routes(string) (http.Handler, error) {
	r := s.Router(s.ready, s.meta.Announced)
	r.HandleFunc("/v1/clients", s.getClients).Methods(http.MethodGet)
	r.HandleFunc("/v1/publishers", s.getPublishers).Methods(http.MethodGet)
	r.HandleFunc("/v1/subscribers", s.getSubscribers).Methods(http.MethodGet)
	path, handler := wirev1connect.NewSessionServiceHandler(&sessionService{s}, s.HandlerOptions())
	serve.Mount(r, path, handler)
	path, handler = wirev1connect.NewClientServiceHandler(&clientService{s}, serve.ClientHandlerOptions())
	serve.Mount(r, path, withResponder(handler))
	return r, nil
}

// responderKey is the context key under which the Connect handler finds its
// response controller.
type responderKey struct{}

// withResponder lets a stream's handler set deadlines on its own request.
func withResponder(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), responderKey{}, http.NewResponseController(w))))
	})
}

// report returns what each beat carries.
func (s *Server) report() (_ []*wirev1.SlotReport, load uint32, ready, draining bool) {
	ready, _ = s.ready()
	s.mu.Lock()
	draining = s.marked
	s.mu.Unlock()
	return nil, uint32(s.clients.count()), ready, draining
}

type clientView struct {
	Client        string    `json:"client"`
	Name          string    `json:"name"`
	Address       string    `json:"address"`
	Since         time.Time `json:"since"`
	Registrations int       `json:"registrations"`
}

func (s *Server) getClients(w http.ResponseWriter, _ *http.Request) {
	out := []clientView{}
	for _, c := range s.clients.snapshot() {
		_, n := s.registry.counts(c)
		out = append(out, clientView{c.client, c.name, c.remote, c.since.UTC().Truncate(time.Millisecond), n})
	}
	serve.WriteJSON(w, http.StatusOK, out)
}

type publisherView struct {
	conclave.Publisher
	Client   string         `json:"client,omitempty"`   // name; "" for a tombstone without an owner
	ClientID string         `json:"clientId,omitempty"` // as in /v1/clients
	Address  string         `json:"address,omitempty"`  // from which the client is or was connected
	Slot     int            `json:"slot"`
	Stored   conclave.Epoch `json:"stored,omitzero"` // the leader epoch at which data accepted it
}

func (s *Server) getPublishers(w http.ResponseWriter, r *http.Request) {
	out := []publisherView{}
	for _, reg := range s.registry.snapshot(r.URL.Query().Get("dataId")) {
		v := publisherView{Publisher: reg.pub, Slot: reg.slot, Stored: reg.stored}
		if reg.owner != nil {
			v.Client, v.ClientID, v.Address = reg.owner.name, reg.owner.client, reg.owner.remote
		}
		out = append(out, v)
	}
	serve.WriteJSON(w, http.StatusOK, out)
}

func (s *Server) getSubscribers(w http.ResponseWriter, r *http.Request) {
	serve.WriteJSON(w, http.StatusOK, s.topics.snapshot(r.URL.Query().Get("dataId"), time.Now()))
}
