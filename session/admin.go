package session

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"conclave/internal/node"
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
	Protocol      string    `json:"protocol"`
	Address       string    `json:"address"`
	Since         time.Time `json:"since"`
	Registrations int       `json:"registrations"`
}

func (a *admin) getClients(w http.ResponseWriter, r *http.Request) {
	serve.WriteList(w, r, serve.List[*connection, clientView]{
		Key: func(c *connection) string { return serve.NumberKey(c.Number) }, Number: true, // the oldest connection first
		Keys: func(add func(...*connection)) { add(a.clients.snapshot()...) },
		Rows: func(some []*connection) []clientView {
			return with(a.registry, func(r *registry.Registry) []clientView {
				out := make([]clientView, len(some))
				for i, c := range some {
					out[i] = clientView{c.Client, c.Name, c.Protocol, c.Address, c.since.UTC().Truncate(time.Millisecond), r.LiveOf(c.Owner)}
				}
				return out
			})
		},
	})
}

// briefBytes is how much of the values of one registration a brief list has.
const briefBytes = 1 << 10

// filterOf returns what a request asks for: ?dataId= and ?match=.
func filterOf(r *http.Request) registry.Filter {
	return registry.Filter{DataID: r.URL.Query().Get("dataId"), Match: r.URL.Query().Get("match")}
}

// getPublishers lists registrations by name and id. With ?brief=true, for a console that
// shows them to others, each has its hidden id and the first of its values.
func (a *admin) getPublishers(w http.ResponseWriter, r *http.Request) {
	filter, brief := filterOf(r), r.URL.Query().Get("brief") == "true"
	who, known := rights.Of(r.Context())
	show := func(id string) string {
		if brief || known && !who.May(rights.Node) {
			return hiddenID(id)
		}
		return id
	}
	serve.WriteList(w, r, serve.List[registry.PublisherKey, registry.Publisher]{
		Key:    func(k registry.PublisherKey) string { return k.Data + "\x00" + show(k.ID) },
		Begins: func(k registry.PublisherKey) string { return k.Data + "\x00" },
		Keys: func(add func(...registry.PublisherKey)) {
			a.eachSlot(func(r *registry.Registry, slot int) func() {
				keys := r.PublisherKeys(slot, filter)
				return func() { add(keys...) }
			})
		},
		Rows: func(keys []registry.PublisherKey) []registry.Publisher {
			ids := make([]string, len(keys))
			for i, k := range keys {
				ids[i] = k.ID
			}
			rows := with(a.registry, func(r *registry.Registry) []registry.Publisher { return r.Publishers(ids) })
			for i := range rows {
				p := &rows[i]
				p.ID = show(p.ID)
				if brief {
					all := len(p.Values)
					p.Values = serve.FirstValues(p.Values, briefBytes)
					p.More = all - len(p.Values)
				}
			}
			return rows
		},
	})
}

// getSubscribers lists subscriptions; with ?pushes=true each with the last pushes under its
// name.
func (a *admin) getSubscribers(w http.ResponseWriter, r *http.Request) {
	filter, pushes := filterOf(r), r.URL.Query().Get("pushes") == "true"
	serve.WriteList(w, r, serve.List[registry.SubscriberKey, registry.Subscriber]{
		Key: registry.SubscriberKey.Text,
		Keys: func(add func(...registry.SubscriberKey)) {
			a.eachSlot(func(r *registry.Registry, slot int) func() {
				keys := r.SubscriberKeys(slot, filter)
				return func() { add(keys...) }
			})
		},
		Rows: func(keys []registry.SubscriberKey) []registry.Subscriber {
			return with(a.registry, func(r *registry.Registry) []registry.Subscriber { return r.Subscribers(keys, pushes, time.Now()) })
		},
	})
}

// eachSlot calls take for each slot, each time under the registry's lock, and what it
// returns without the lock.
func (a *admin) eachSlot(take func(r *registry.Registry, slot int) func()) {
	for slot := range with(a.registry, (*registry.Registry).Slots) {
		with(a.registry, func(r *registry.Registry) func() { return take(r, slot) })()
	}
}

// hiddenID returns an id that stands for a registration's own. A client that knows that one
// can replace the registration at another session, which does not know to whom it
// belongs. Both are the same at every session.
func hiddenID(id string) string {
	digest := sha256.Sum256([]byte(id))
	return hex.EncodeToString(digest[:8])
}

// counters are those that the parts of the session count themselves.
type counters struct {
	refusals prometheus.Counter // refused registrations and subscriptions
	expired  prometheus.Counter // clients that were removed with registrations
	waits    prometheus.Counter // messages that waited for room
	unread   prometheus.Counter // connections that were ended because their client did not read
}

// exportMetrics exports the session's metrics, besides those of every node.
func exportMetrics(m *node.Metrics, r *locked, c *clients) counters {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		m.Add(c)
		return c
	}
	n := counters{
		refusals: counter("conclave_session_refused_total", "Registrations and subscriptions that were refused."),
		expired:  counter("conclave_session_client_leases_expired_total", "Clients that did not come back within their lease and whose registrations were removed."),
		waits:    counter("conclave_session_waits_total", "Messages with new registrations that waited until data had stored earlier ones."),
		unread:   counter("conclave_session_unread_total", "Connections that were ended because their client left too much unread, or for too long."),
	}
	m.Gauge("conclave_session_unsent_bytes", "Bytes of changes that data has not stored yet, about.", func() float64 { return float64(with(r, (*registry.Registry).Unsent)) })
	figures := func() registry.Figures { return with(r, (*registry.Registry).Figures) }
	m.Gauge("conclave_session_clients", "Connected clients.", func() float64 { return float64(c.count()) })
	m.Gauge("conclave_session_publishers", "Live registrations held.", func() float64 { return float64(with(r, (*registry.Registry).Live)) })
	m.Gauge("conclave_session_subscribers", "Subscriptions held.", func() float64 { return float64(figures().Subscriptions) })
	m.Gauge("conclave_session_pushes_held", "Pushes that the guard is holding back.", func() float64 { return float64(figures().Held) })
	m.Gauge("conclave_session_lists_too_large", "Lists that are too large to be sent: their subscribers keep what they have.", func() float64 { return float64(figures().TooLarge) })
	m.Counter("conclave_session_pushes_total", "Pushes given to subscribers.", func() uint64 { return figures().Pushes })
	m.Counter("conclave_session_pushes_held_total", "Pushes that the guard held back.", func() uint64 { return figures().HeldTotal })
	return n
}
