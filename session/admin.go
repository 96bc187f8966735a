package session

import (
	"net/http"
	"time"

	"conclave/session/registry"
	"conclave/wire/serve"
)

// admin answers the questions of operators about the clients.
type admin struct {
	registry *locked
	clients  *clients
}

type clientView struct {
	Client        string    `json:"client"`
	Name          string    `json:"name"`
	Address       string    `json:"address"`
	Since         time.Time `json:"since"`
	Registrations int       `json:"registrations"`
}

func (a *admin) getClients(w http.ResponseWriter, _ *http.Request) {
	out := []clientView{}
	for _, c := range a.clients.snapshot() {
		n := with(a.registry, func(r *registry.Registry) int { return r.LiveOf(c.Owner) })
		out = append(out, clientView{c.Client, c.Name, c.Address, c.since.UTC().Truncate(time.Millisecond), n})
	}
	serve.WriteJSON(w, http.StatusOK, out)
}

func (a *admin) getPublishers(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("dataId")
	serve.WriteJSON(w, http.StatusOK, with(a.registry, func(r *registry.Registry) []registry.Publisher { return r.Publishers(id) }))
}

func (a *admin) getSubscribers(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("dataId")
	serve.WriteJSON(w, http.StatusOK, with(a.registry, func(r *registry.Registry) []registry.Subscriber { return r.Subscribers(id, time.Now()) }))
}
