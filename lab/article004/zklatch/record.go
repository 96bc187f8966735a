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

// record is the content of an election's record node: the last term that was won.
type record struct {
	Number   uint64 `json:"term"`
	Leader   string `json:"leader"`
	Address  string `json:"address"`
	Beat     uint64 `json:"beat"`
	LeaseMs  int64  `json:"lease_ms"`
	Node     string `json:"node"` // the winner's place, used for this term only
	Resigned bool   `json:"resigned,omitempty"`
}

// The nodes of an election, under its path.
const (
	recordNode = "/term"
	lineNode   = "/line"
)

// read returns the record and its version. If there is none, it creates the record of
// term 0.
func (s *Strategy) read(ctx context.Context) (record, int32, error) {
	for {
		data, stat, err := s.cfg.Tree.Get(ctx, s.cfg.Path+recordNode)
		if errors.Is(err, ErrNoNode) {
			if err = s.client.makePath(ctx, s.cfg.Path+recordNode, Persistent); err == nil || errors.Is(err, ErrNoNode) {
				continue // also if a parent was a container that was deleted meanwhile
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

// bytes returns the record as it is stored.
func (r record) bytes() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers
	}
	return b
}

// term returns the record as the Elector sees it. alive means that the leader's place
// exists. If the record names the reader, the term has no Leader: a node knows what it
// leads from its own requests only.
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

// Fenced writes a node if owner still leads that term of the election: in the same
// transaction the servers check that the place by which the term was won still
// exists. If it does not, Fenced returns false and nothing is written.
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
	if err := c.makePath(ctx, path, Persistent); err != nil {
		return false, fmt.Errorf("fence a write of %s: %w", path, err)
	}
	_, err = c.tree.SetIf(ctx, path, data, AnyVersion, r.Node)
	if errors.Is(err, ErrNoNode) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("fence a write of %s: %w", path, err)
	}
	return true, nil
}
