package bench

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"conclave/wire"
)

// Gaps reads from the data nodes for how long each slot that changed hands was
// served by nobody: they measure it themselves, and tell it as events.
type Gaps struct {
	http *http.Client
	last map[string]uint64 // the newest event read, by address and incarnation
}

// NewGaps has read nothing.
func NewGaps(c *http.Client) *Gaps { return &Gaps{http: c, last: make(map[string]uint64)} }

// Since returns the gaps told since the last call, in milliseconds; nodes that
// do not answer tell nothing.
func (g *Gaps) Since(ctx context.Context, addresses []string) []float64 {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var out []float64
	for _, address := range addresses {
		life := address + "@" + g.incarnation(ctx, address) // ids begin anew with each life
		_ = wire.ReadEvents(ctx, g.http, address, g.last[life], false, func(e wire.Event) error {
			g.last[life] = e.ID
			if ms, ok := e.Data["unreadableMs"].(float64); ok && e.Type == "slot.serving" {
				out = append(out, ms)
			}
			return nil
		}) // it is down: nothing to tell
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
