package bench

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"conclave/wire"
)

// Gaps reads from the data nodes' events for how long each slot that was handed
// over was served by no node. The data nodes measure it themselves.
type Gaps struct {
	http  *http.Client
	token string            // with the right to read
	last  map[string]uint64 // the newest event read, by address and incarnation
}

// NewGaps returns a Gaps that has read no events. token is "" for a cluster without
// tokens.
func NewGaps(c *http.Client, token string) *Gaps {
	return &Gaps{http: c, token: token, last: make(map[string]uint64)}
}

// Since returns the gaps reported since the last call, in milliseconds. It
// ignores nodes that do not answer.
func (g *Gaps) Since(ctx context.Context, addresses []string) []float64 {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var out []float64
	for _, address := range addresses {
		life := address + "@" + g.incarnation(ctx, address) // event ids start again with each incarnation
		_ = wire.ReadEvents(ctx, g.http, address, g.token, g.last[life], false, func(e wire.Event) error {
			g.last[life] = e.ID
			if ms, ok := e.Data["unreadableMs"].(float64); ok && e.Type == "slot.serving" {
				out = append(out, ms)
			}
			return nil
		}) // a node that is down has nothing to report
	}
	return out
}

func (g *Gaps) incarnation(ctx context.Context, address string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/healthz", nil)
	if err != nil {
		return ""
	}
	res, err := g.http.Do(req)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	var health struct {
		Incarnation string `json:"incarnation"`
	}
	if json.NewDecoder(res.Body).Decode(&health) != nil {
		return ""
	}
	return health.Incarnation
}
