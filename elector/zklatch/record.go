package zklatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"conclave"
	"conclave/elector"
)

// record is what an election's record node holds: the last term that was won.
type record struct {
	Number   uint64 `json:"term"`
	Leader   string `json:"leader"`
	Address  string `json:"address"`
	Beat     uint64 `json:"beat"`
	LeaseMs  int64  `json:"lease_ms"`
	Node     string `json:"node"` // the winner's place: it leads this one term by it, and no other
	Resigned bool   `json:"resigned,omitempty"`
}

// The nodes of an election, under its path.
const (
	recordNode = "/term"
	lineNode   = "/line"
)

// read returns the record and its version; a record that was never written is that of
// term 0, and made.
func (s *Strategy) read(ctx context.Context) (record, int32, error) {
	for {
		data, stat, err := s.cfg.Tree.Get(ctx, s.cfg.Path+recordNode)
		if errors.Is(err, ErrNoNode) {
			if err = s.client.makeParents(ctx, s.cfg.Path+recordNode); err == nil {
				continue
			}
		}
		if err != nil {
			return record{}, 0, fmt.Errorf("read the record of %s: %w", s.cfg.Path, err)
		}
		r, err := parse(data)
		if err != nil {
			return record{}, 0, fmt.Errorf("read the record of %s: %w", s.cfg.Path, err)
		}
		return r, stat.Version, nil
	}
}

func parse(data []byte) (r record, err error) {
	if len(data) == 0 {
		return record{}, nil
	}
	return r, json.Unmarshal(data, &r)
}

// bytes is the record as it is written.
func (r record) bytes() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers
	}
	return b
}

// term is the record as the Elector sees it. A record that names the reader names
// nobody who leads: what this node leads it knows from its own requests.
func (r record) term(me elector.Candidate, alive bool) elector.Term {
	t := elector.Term{Number: r.Number, Beat: r.Beat, Lease: time.Duration(r.LeaseMs) * time.Millisecond}
	if r.Number == 0 {
		t.Lease = me.Lease
	}
	if leader, err := conclave.ParseNodeID(r.Leader); err == nil && alive && !r.Resigned && leader != me.ID {
		t.Leader, t.Address = leader, r.Address
	}
	return t
}

// Fenced writes a node, if owner still leads that term of the election at a path: in
// the same transaction the servers look whether the place by which it was won is still
// there. false: it is not, and nothing was written.
func (c *Client) Fenced(ctx context.Context, election string, owner conclave.NodeID, term uint64, path string, data []byte) (bool, error) {
	now, _, err := c.tree.Get(ctx, election+recordNode)
	if err != nil {
		return false, fmt.Errorf("fence a write of %s: %w", path, err)
	}
	r, err := parse(now)
	if err != nil {
		return false, fmt.Errorf("fence a write of %s: %w", path, err)
	}
	if r.Number != term || r.Leader != owner.String() || r.Resigned {
		return false, nil
	}
	if err := c.makeParents(ctx, path); err != nil {
		return false, fmt.Errorf("fence a write of %s: %w", path, err)
	}
	_, err = c.tree.SetIf(ctx, path, data, AnyVersion, r.Node, AnyVersion)
	if errors.Is(err, ErrNoNode) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("fence a write of %s: %w", path, err)
	}
	return true, nil
}
