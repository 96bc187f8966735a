package wire

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"conclave"
	"conclave/blacklist"
	"conclave/slot"
	wirev1 "conclave/wire/v1"
)

// Member is one session or data node on the member list. The leader writes the
// list under its term before it publishes it.
type Member struct {
	Node     conclave.NodeID `json:"node"`
	Role     conclave.Role   `json:"role"`
	Address  string          `json:"address"`
	Draining bool            `json:"draining,omitempty"` // is leaving: still a member, no longer given clients or slots
	Dialable bool            `json:"dialable,omitempty"` // the leader dialled it, and this incarnation answered
	Sofa     string          `json:"sofa,omitempty"`     // of a session: its address for clients of SOFARegistry
}

// Members is the member list, sorted by name; one incarnation per name.
type Members struct {
	Epoch conclave.Epoch `json:"-"`
	List  []Member       `json:"list"`
	// Lost has the sessions that were removed and are not known to be dead, in
	// the order of their removal. They are no members: a data node that must
	// serve a slot without a copy asks them, too.
	Lost []Member `json:"lost,omitempty"`
}

// Find returns the member of a name.
func (m Members) Find(name string) (Member, bool) {
	for _, x := range m.List {
		if x.Node.Name == name {
			return x, true
		}
	}
	return Member{}, false
}

// Has reports whether this incarnation is a member.
func (m Members) Has(n conclave.NodeID) bool {
	x, ok := m.Find(n.Name)
	return ok && x.Node == n
}

// Of returns the members of a role.
func (m Members) Of(role conclave.Role) []Member {
	var out []Member
	for _, x := range m.List {
		if x.Role == role {
			out = append(out, x)
		}
	}
	return out
}

// Blacklist is the published list of forbidden nodes.
type Blacklist struct {
	Epoch   conclave.Epoch `json:"-"`
	Entries blacklist.Set  `json:"entries"`
}

// Switch is one setting of the whole cluster. Version counts its changes.
type Switch struct {
	Key     string `json:"key"`
	Value   string `json:"value"`
	Version uint64 `json:"version"`
}

// The keys of the switches.
const (
	SwitchStopPush        = "stop-push"        // on, off: while on, sessions push nothing, and a data node that stops does not wait for new copies
	SwitchArrange         = "arrange"          // on, off: while off, no slot is given to another node
	SwitchProtectionFloor = "protection-floor" // the smallest number of data nodes with which slots still leave the nodes of their rows; 0: none
	SwitchPushWindow      = "push-window-ms"   // changes of a datum within this time are merged into one push
	SwitchPushGuard       = "push-guard"       // on, off: while off, unconfirmed removals are pushed at once
)

// Switches are all settings, sorted by key.
type Switches struct {
	Epoch conclave.Epoch `json:"-"`
	List  []Switch       `json:"list"`
}

// Get returns the value of a key, or byDefault if it is not set.
func (s Switches) Get(key, byDefault string) string {
	for _, x := range s.List {
		if x.Key == key {
			return x.Value
		}
	}
	return byDefault
}

// Freeze is protection: too many data nodes were lost at once, so no slot leaves
// the nodes of its row until they return (compare Eureka's self-preservation and
// Nacos' threshold).
type Freeze struct {
	Epoch  conclave.Epoch `json:"-"`
	Frozen bool           `json:"frozen"`
	Reason string         `json:"reason,omitempty"`
}

// ConfigValue is a value of the configuration that operators publish to
// clients. The sessions pass it on and do not read it. (Article 002: provide
// data.)
type ConfigValue struct {
	ID    string         `json:"id"`
	Value string         `json:"value"`
	Epoch conclave.Epoch `json:"epoch"` // of the write that set it
}

// MaxWatches is how many configuration values there may be, and how many of them
// a client may watch.
const MaxWatches = 1024

// ValidConfigID reports whether a configuration value can have that ID: 1 to 128
// letters, digits, dots, hyphens and underscores.
func ValidConfigID(id string) bool {
	const others = "._-"
	for _, c := range []byte(id) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(others, c) >= 0) {
			return false
		}
	}
	return id != "" && id != "." && id != ".." && len(id) <= 128
}

// ConfigValues are all of them, sorted by ID.
type ConfigValues struct {
	Epoch conclave.Epoch `json:"-"`
	List  []ConfigValue  `json:"list"`
}

// Find returns the value of an ID.
func (c ConfigValues) Find(id string) (ConfigValue, bool) {
	at, found := slices.BinarySearchFunc(c.List, id, func(v ConfigValue, id string) int { return strings.Compare(v.ID, id) })
	if !found {
		return ConfigValue{}, false
	}
	return c.List[at], true
}

// State is the cluster's state, one value of each kind. The zero State means
// that nothing is known.
type State struct {
	Table     slot.Table
	Replicas  int
	Members   Members
	Blacklist Blacklist
	Switches  Switches
	Freeze    Freeze
	Config    ConfigValues
}

// MemberOut returns the message for a member.
func MemberOut(m Member) *wirev1.Member {
	return &wirev1.Member{Node: NodeOut(m.Node), Role: string(m.Role), Address: m.Address, Draining: m.Draining, Dialable: m.Dialable, Sofa: m.Sofa}
}

// MemberIn returns the member in a message without checking it. The leader
// checks name, role and address when a node joins.
func MemberIn(m *wirev1.Member) Member {
	return Member{Node: NodeIn(m.GetNode()), Role: conclave.Role(m.GetRole()), Address: m.GetAddress(), Draining: m.GetDraining(), Dialable: m.GetDialable(), Sofa: m.GetSofa()}
}

// kind is one kind of the cluster's state: where it is in a State and in the
// messages, and how it is converted.
type kind struct {
	epoch func(*State) conclave.Epoch
	known func(*wirev1.Epochs) **wirev1.Epoch
	sent  func(*wirev1.State) *wirev1.Epoch // nil: the kind is not in the message
	out   func(*State, *wirev1.State)
	in    func(*wirev1.State, *State) error // replaces the kind, or leaves it as it is and returns an error
}

// kinds are all kinds. A new one is an entry here, a name in sql.Kinds and a case
// in decode in meta/bodies.go (all of it: CONTRIBUTING.md, "An admin call").
var kinds = []kind{{
	epoch: func(s *State) conclave.Epoch { return s.Table.Epoch },
	known: func(e *wirev1.Epochs) **wirev1.Epoch { return &e.Table },
	sent:  func(m *wirev1.State) *wirev1.Epoch { return m.GetTable().GetEpoch() },
	out:   func(s *State, m *wirev1.State) { m.Table = TableOut(s.Table, s.Replicas) },
	in:    tableIn,
}, {
	epoch: func(s *State) conclave.Epoch { return s.Members.Epoch },
	known: func(e *wirev1.Epochs) **wirev1.Epoch { return &e.Members },
	sent:  func(m *wirev1.State) *wirev1.Epoch { return m.GetMembers().GetEpoch() },
	out: func(s *State, m *wirev1.State) {
		m.Members = &wirev1.Members{Epoch: EpochOut(s.Members.Epoch), Members: mapTo(s.Members.List, MemberOut), Lost: mapTo(s.Members.Lost, MemberOut)}
	},
	in: func(m *wirev1.State, s *State) error {
		s.Members = Members{Epoch: EpochIn(m.Members.GetEpoch()), List: mapTo(m.Members.GetMembers(), MemberIn), Lost: mapTo(m.Members.GetLost(), MemberIn)}
		return nil
	},
}, {
	epoch: func(s *State) conclave.Epoch { return s.Blacklist.Epoch },
	known: func(e *wirev1.Epochs) **wirev1.Epoch { return &e.Blacklist },
	sent:  func(m *wirev1.State) *wirev1.Epoch { return m.GetBlacklist().GetEpoch() },
	out: func(s *State, m *wirev1.State) {
		m.Blacklist = &wirev1.Blacklist{Epoch: EpochOut(s.Blacklist.Epoch), Entries: mapTo(s.Blacklist.Entries, entryOut)}
	},
	in: func(m *wirev1.State, s *State) error {
		s.Blacklist = Blacklist{Epoch: EpochIn(m.Blacklist.GetEpoch()), Entries: mapTo(m.Blacklist.GetEntries(), entryIn)}
		return nil
	},
}, {
	epoch: func(s *State) conclave.Epoch { return s.Switches.Epoch },
	known: func(e *wirev1.Epochs) **wirev1.Epoch { return &e.Switches },
	sent:  func(m *wirev1.State) *wirev1.Epoch { return m.GetSwitches().GetEpoch() },
	out: func(s *State, m *wirev1.State) {
		m.Switches = &wirev1.Switches{Epoch: EpochOut(s.Switches.Epoch), Switches: mapTo(s.Switches.List, switchOut)}
	},
	in: func(m *wirev1.State, s *State) error {
		s.Switches = Switches{Epoch: EpochIn(m.Switches.GetEpoch()), List: mapTo(m.Switches.GetSwitches(), switchIn)}
		return nil
	},
}, {
	epoch: func(s *State) conclave.Epoch { return s.Freeze.Epoch },
	known: func(e *wirev1.Epochs) **wirev1.Epoch { return &e.Freeze },
	sent:  func(m *wirev1.State) *wirev1.Epoch { return m.GetFreeze().GetEpoch() },
	out: func(s *State, m *wirev1.State) {
		m.Freeze = &wirev1.Freeze{Epoch: EpochOut(s.Freeze.Epoch), Frozen: s.Freeze.Frozen, Reason: s.Freeze.Reason}
	},
	in: func(m *wirev1.State, s *State) error {
		s.Freeze = Freeze{Epoch: EpochIn(m.Freeze.GetEpoch()), Frozen: m.Freeze.GetFrozen(), Reason: m.Freeze.GetReason()}
		return nil
	},
}, {
	epoch: func(s *State) conclave.Epoch { return s.Config.Epoch },
	known: func(e *wirev1.Epochs) **wirev1.Epoch { return &e.Config },
	sent:  func(m *wirev1.State) *wirev1.Epoch { return m.GetConfig().GetEpoch() },
	out: func(s *State, m *wirev1.State) {
		m.Config = &wirev1.ConfigValues{Epoch: EpochOut(s.Config.Epoch), Values: mapTo(s.Config.List, configOut)}
	},
	in: func(m *wirev1.State, s *State) error {
		s.Config = ConfigValues{Epoch: EpochIn(m.Config.GetEpoch()), List: mapTo(m.Config.GetValues(), configIn)}
		return nil
	},
}}

// StateOut returns the message with the kinds of s whose epochs are higher than
// those in have: all that a peer lacks.
func StateOut(s State, have *wirev1.Epochs) *wirev1.State {
	have, out := cmp.Or(have, &wirev1.Epochs{}), &wirev1.State{}
	for _, k := range kinds {
		if EpochIn(*k.known(have)).Less(k.epoch(&s)) {
			k.out(&s, out)
		}
	}
	return out
}

// EpochsOf returns the message with the epoch of each kind in s.
func EpochsOf(s State) *wirev1.Epochs { return EpochsAbove(nil, s) }

// EpochsAbove returns the higher one of the epochs in have and in s for each kind:
// what a peer that had the first has once it has received s.
func EpochsAbove(have *wirev1.Epochs, s State) *wirev1.Epochs {
	have, out := cmp.Or(have, &wirev1.Epochs{}), &wirev1.Epochs{}
	for _, k := range kinds {
		if *k.known(out) = *k.known(have); EpochIn(*k.known(have)).Less(k.epoch(&s)) {
			*k.known(out) = EpochOut(k.epoch(&s))
		}
	}
	return out
}

// TableOut returns the message for a whole table.
func TableOut(t slot.Table, replicas int) *wirev1.SlotTable {
	return &wirev1.SlotTable{Epoch: EpochOut(t.Epoch), Slots: mapTo(t.Slots, SlotOut), Replicas: uint32(replicas)}
}

// DeltaOut returns the message with the rows of t that differ from those of base,
// which has as many. A receiver with another table than base gets ErrBehind and
// fetches the whole one.
func DeltaOut(base, t slot.Table, replicas int) *wirev1.SlotTable {
	out := &wirev1.SlotTable{Epoch: EpochOut(t.Epoch), Base: EpochOut(base.Epoch), Replicas: uint32(replicas)}
	for i, row := range t.Slots {
		if !row.Equal(base.Slots[i]) {
			out.Slots = append(out.Slots, SlotOut(row))
		}
	}
	return out
}

func switchOut(s Switch) *wirev1.Switch {
	return &wirev1.Switch{Key: s.Key, Value: s.Value, Version: s.Version}
}

func switchIn(s *wirev1.Switch) Switch {
	return Switch{Key: s.GetKey(), Value: s.GetValue(), Version: s.GetVersion()}
}

func configOut(c ConfigValue) *wirev1.ConfigValue {
	return &wirev1.ConfigValue{Id: c.ID, Value: c.Value, Epoch: EpochOut(c.Epoch)}
}

func configIn(c *wirev1.ConfigValue) ConfigValue {
	return ConfigValue{ID: c.GetId(), Value: c.GetValue(), Epoch: EpochIn(c.GetEpoch())}
}

func entryOut(e blacklist.Entry) *wirev1.BlacklistEntry {
	return &wirev1.BlacklistEntry{
		Name: e.Name, Role: string(e.Role), Reason: e.Reason, By: e.By, Incarnation: e.Incarnation, SinceUnixMs: e.Since.UnixMilli(),
	}
}

func entryIn(e *wirev1.BlacklistEntry) blacklist.Entry {
	return blacklist.Entry{
		Name: e.GetName(), Role: conclave.Role(e.GetRole()), Reason: e.GetReason(), By: e.GetBy(), Incarnation: e.GetIncarnation(),
		Since: time.UnixMilli(e.GetSinceUnixMs()).UTC(),
	}
}

// SwitchStopping is the key under which the leader records that the whole
// cluster is about to stop. The value is for how many milliseconds the
// announcement is in force, counted from its arrival at each node; 0 means that
// it was withdrawn or has expired. The version identifies the announcement. It
// is sent with the switches but is not one: operators cannot set it.
const SwitchStopping = "stopping"

// announcement is the record under SwitchStopping; it is zero if there is none.
type announcement struct {
	version uint64
	lasts   time.Duration
}

func (s Switches) announcement() announcement {
	for _, x := range s.List {
		if ms, err := strconv.ParseInt(x.Value, 10, 64); x.Key == SwitchStopping && err == nil && ms > 0 {
			return announcement{x.Version, FromMs(ms)}
		}
	}
	return announcement{}
}

// Stopping returns for how long the announcement that the whole cluster stops
// is still in force at this node: its duration, counted from its arrival by
// this node's own monotonic clock. recorded reports whether the state has an
// announcement. One that has expired stays recorded until the leader clears it.
func (v *View) Stopping() (remaining time.Duration, recorded bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	a := v.state.Switches.announcement()
	if a.lasts == 0 {
		return 0, false
	}
	return max(0, a.lasts-time.Since(v.announced)), true
}

// noteArrival records the time at which a new announcement arrives. mu is held.
func (v *View) noteArrival(next State) {
	if a := next.Switches.announcement(); a != v.state.Switches.announcement() {
		v.announced = time.Now()
	}
}

// Conversions between the types of the packages conclave and slot and their
// protobuf messages. XOut returns the message and XIn reads it; a nil message
// reads as the zero value.

// EpochOut returns the message for an epoch, nil for the zero Epoch.
func EpochOut(e conclave.Epoch) *wirev1.Epoch {
	if e.IsZero() {
		return nil
	}
	return &wirev1.Epoch{Term: e.Term, Seq: e.Seq}
}

// EpochIn returns the epoch in a message, the zero Epoch for nil.
func EpochIn(e *wirev1.Epoch) conclave.Epoch {
	return conclave.Epoch{Term: e.GetTerm(), Seq: e.GetSeq()}
}

// NodeOut returns the message for a node's identity, nil for the zero NodeID.
func NodeOut(n conclave.NodeID) *wirev1.Node {
	if n.IsZero() {
		return nil
	}
	return &wirev1.Node{Name: n.Name, Incarnation: n.Incarnation}
}

// NodeIn returns the identity in a message, the zero NodeID for nil.
func NodeIn(n *wirev1.Node) conclave.NodeID {
	return conclave.NodeID{Name: n.GetName(), Incarnation: n.GetIncarnation()}
}

// CheckPublisher checks the limits of a registration; every one from outside passes
// here. Values over their limits are CodeTooLarge, all other errors CodeBadRequest.
// What passes has its full name, and no values if it is withdrawn: the message is
// then what is kept, without another form in between.
func CheckPublisher(p *wirev1.Publisher) error {
	data, err := conclave.ParseDataInfoID(p.GetDataInfoId())
	if err != nil {
		return Errorf(CodeBadRequest, "%v", err)
	}
	if err := conclave.ValidateValues(p.GetValues()); err != nil {
		return Errorf(CodeTooLarge, "%s: %v", data.DataID, err)
	}
	if id := p.GetId(); id == "" || len(id) > 128 {
		return Errorf(CodeBadRequest, "registration id %.20q: want 1 to 128 bytes", id)
	}
	if v := p.GetVersion(); v < 1 || v > conclave.MaxVersion {
		return Errorf(CodeBadRequest, "registration %s has version %d: want 1 to 2^53-1", p.GetId(), v)
	}
	p.DataInfoId = data.String()
	if p.Withdrawn {
		p.Values = nil
	}
	return nil
}

// SlotOut returns the message for one row of the table.
func SlotOut(s slot.Slot) *wirev1.Slot {
	return &wirev1.Slot{
		Id: uint32(s.ID), Phase: string(s.Phase), Leader: NodeOut(s.Leader), LeaderEpoch: EpochOut(s.LeaderEpoch),
		Successor: NodeOut(s.Successor), Source: NodeOut(s.Source), SourceEpoch: EpochOut(s.SourceEpoch),
		VersionBase: s.VersionBase, Followers: mapTo(s.Followers, NodeOut), Leaving: NodeOut(s.Leaving), First: s.First,
	}
}

// SlotIn returns the row in a message without checking it; the View checks the
// whole table.
func SlotIn(s *wirev1.Slot) slot.Slot {
	return slot.Slot{
		ID: int(s.GetId()), Phase: slot.Phase(s.GetPhase()), Leader: NodeIn(s.GetLeader()), LeaderEpoch: EpochIn(s.GetLeaderEpoch()),
		Successor: NodeIn(s.GetSuccessor()), Source: NodeIn(s.GetSource()), SourceEpoch: EpochIn(s.GetSourceEpoch()),
		VersionBase: s.GetVersionBase(), Followers: mapTo(s.GetFollowers(), NodeIn), Leaving: NodeIn(s.GetLeaving()), First: s.GetFirst(),
	}
}

func mapTo[A, B any](in []A, f func(A) B) []B {
	if in == nil {
		return nil
	}
	out := make([]B, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}

// Ms returns a duration in milliseconds, the unit on the wire. It rounds up, so
// that a short time is never sent as 0.
func Ms(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// FromMs returns the duration of ms milliseconds.
func FromMs(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
