package metaclient

import (
	"time"

	"conclave"
	"conclave/wire"
)

// The bodies of the metas' HTTP API, written by package meta and read by Admin.
// Durations are milliseconds, times are UTC with milliseconds.

// LeaderInfo answers /v1/leader.
type LeaderInfo struct {
	Leader           string    `json:"leader"` // name
	Address          string    `json:"address"`
	Term             uint64    `json:"term"`
	Beat             uint64    `json:"beat"` // renewals within the term
	LeaseRemainingMs int64     `json:"leaseRemainingMs"`
	Since            time.Time `json:"since"`
	Cause            string    `json:"cause"`
}

// Election is one term that was won. LeaderlessMs counts from the previous
// leader's last valid moment (its resignation, the breaking of its connection,
// or the end of its lease) to the new one's first fenced write.
type Election struct {
	Term         uint64    `json:"term"`
	Owner        string    `json:"owner"`
	Previous     string    `json:"previous"`
	Cause        string    `json:"cause"` // first, resigned, killed, expired, restored
	LeaderlessMs int64     `json:"leaderlessMs"`
	At           time.Time `json:"at"`
}

// SlotsInfo answers /v1/slots.
type SlotsInfo struct {
	Epoch     conclave.Epoch `json:"epoch"`
	Stable    bool           `json:"stable"`    // no slot is being moved
	Even      bool           `json:"even"`      // over the nodes that may lead
	Protected bool           `json:"protected"` // no slot leaves the nodes of its row: too many nodes were lost at once
	Reason    string         `json:"reason,omitempty"`
	Behind    []string       `json:"behind,omitempty"` // members that hold an older table
	SpreadMs  int64          `json:"spreadMs"`         // how long the newest table took to reach every member
	Slots     []SlotInfo     `json:"slots"`
}

// SlotInfo is one slot; nodes by name.
type SlotInfo struct {
	ID          int            `json:"id"`
	Leader      string         `json:"leader"`
	LeaderEpoch conclave.Epoch `json:"leaderEpoch"`
	Followers   []string       `json:"followers"`
	State       string         `json:"state"` // the phase: stable, preparing, switching, crash
	Successor   string         `json:"successor,omitempty"`
	Source      string         `json:"source,omitempty"`
}

// NodeInfo is one node of any role.
type NodeInfo struct {
	Name             string        `json:"name"`
	Role             conclave.Role `json:"role"`
	Address          string        `json:"address"`
	Incarnation      string        `json:"incarnation"`
	State            NodeState     `json:"state"`
	LeaseRemainingMs int64         `json:"leaseRemainingMs"`
	Load             uint32        `json:"load"` // session: client connections; data: publishers
	Leading          bool          `json:"leading,omitempty"`
	Observer         bool          `json:"observer,omitempty"` // a meta that does not compete
	Last             bool          `json:"last,omitempty"`     // a session that should drain and still serves, because no other one takes clients
}

// NodeState is the state of a node as the leader sees it.
type NodeState string

// The states of a node.
const (
	NodeUp          NodeState = "up"          // holds its stream
	NodeSuspect     NodeState = "suspect"     // its stream broke, its lease still runs
	NodeDraining    NodeState = "draining"    // it hands over what it has, to stop
	NodeBlacklisted NodeState = "blacklisted" // put on the blacklist by an operator
)

// BlacklistInfo is one entry of the blacklist.
type BlacklistInfo struct {
	Name   string        `json:"name"`
	Role   conclave.Role `json:"role"`
	Reason string        `json:"reason"`
	Since  time.Time     `json:"since"`
	By     string        `json:"by"`
}

// ForbidRequest is the body of PUT /v1/blacklist/{name}; it may be left out.
type ForbidRequest struct {
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
}

// SwitchRequest is the body of PUT /v1/switches/{key}.
type SwitchRequest struct {
	Value string `json:"value"`
}

// ConfigRequest is the body of PUT /v1/config/{id}.
type ConfigRequest struct {
	Value *string `json:"value"` // required
}

// Effect answers a changing request with ?dryRun=true: what the request would
// do.
type Effect struct {
	DryRun  bool      `json:"dryRun"` // true
	Effect  string    `json:"effect"`
	Refused bool      `json:"refused,omitempty"` // it would be refused unless forced
	Code    wire.Code `json:"code,omitempty"`    // of that refusal
}

// ObserverRequest is the body of PUT /v1/observers/{name}, by which a meta asks
// the leader whether it may quit the election.
type ObserverRequest struct {
	Incarnation string `json:"incarnation"`
}

// ObserverGrant answers it.
type ObserverGrant struct {
	Name string `json:"name"`
	Term uint64 `json:"term"` // of the leader that grants it; void once a higher one has been seen
}
