package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"conclave"
)

// Event is one entry of a node's event log, such as a change of leader or of a
// slot.
type Event struct {
	ID    uint64          `json:"id"` // number of the event at its node, from 1
	At    time.Time       `json:"at"`
	Node  string          `json:"node"`
	Type  string          `json:"type"` // leader.elected, slot.serving, node.joined, ...
	Term  uint64          `json:"term,omitempty"`
	Epoch *conclave.Epoch `json:"epoch,omitempty"`
	Text  string          `json:"text"`
	Data  map[string]any  `json:"data,omitempty"`
}

// ReadEvents calls each for a node's events after an id: those that the node
// keeps and, if follow is set, new ones, until ctx ends, the connection breaks,
// or each returns an error. The token is sent if it is not "". It is the client of serve.Events.
func ReadEvents(ctx context.Context, c *http.Client, address, token string, after uint64, follow bool, each func(Event) error) error {
	url := "http://" + address + "/v1/events?follow=" + strconv.FormatBool(follow)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	SetToken(req.Header, token)
	if after > 0 {
		req.Header.Set("Last-Event-ID", strconv.FormatUint(after, 10))
	}
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("events of %s: %s", address, res.Status)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return fmt.Errorf("events of %s: invalid event: %w", address, err)
		}
		if err := each(e); err != nil {
			return err
		}
	}
	return lines.Err()
}
