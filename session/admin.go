package session

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"

	"conclave/session/registry"
	"conclave/wire/rights"
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
	list := with(a.registry, func(r *registry.Registry) []registry.Publisher { return r.Publishers(id) })
	if who, known := rights.Of(r.Context()); known && !who.May(rights.Node) {
		for i := range list {
			list[i].ID = hiddenID(list[i].ID)
		}
	}
	serve.WriteJSON(w, http.StatusOK, list)
}

func (a *admin) getSubscribers(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("dataId")
	serve.WriteJSON(w, http.StatusOK, with(a.registry, func(r *registry.Registry) []registry.Subscriber { return r.Subscribers(id, time.Now()) }))
}

// hiddenID returns an id that stands for a registration's own. Who knows that one
// can replace the registration at another session, which does not know to whom it
// belongs. Both are the same at every session.
func hiddenID(id string) string {
	digest := sha256.Sum256([]byte(id))
	return hex.EncodeToString(digest[:8])
}
