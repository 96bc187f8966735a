package registry

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"conclave/wire"
	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

// Outbox holds what is still to be sent to one client. Its size is limited by
// what the client itself asked for: one entry per registration and per
// subscription, of which the newest replaces the older ones. A client that reads
// slowly therefore sees fewer versions, never an older one after a newer one,
// and delays no other client. Its zero value is empty. It is not safe for concurrent
// use.
//
// Limit bounds what the session keeps for this client alone. The lists that wait are
// those that their topics hold in any case, so a client may be given any number at a
// time, and read them one after the other.
type Outbox struct {
	Limit int // bytes of answers and, again, of the old lists that deltas are from; 0: none

	// What is sent once with the next message, unless it is zero.
	Welcome  *wirev1.Welcome
	Sessions []string
	Move     string // why the client is asked to go to another session
	MoveTo   string // with Move: the address to try first; "" for any
	Pong     uint64

	config map[string]*wirev1.WatchedValue // the newest of each configuration value, by id
	epoch  *wirev1.Epoch                   // of the configuration that they are from

	accepted acks
	stored   acks
	refused  []*wirev1.Refusal
	withheld map[string]*wirev1.Refusal // by subscription
	pushes   []string                   // subscriptions in order of arrival, each once
	newest   map[string]unsent          // of each subscription in pushes, unless it has ended
	parts    *inParts                   // the push that is being sent in parts; nil: none

	bytes     int            // of all entries: not of the lists
	baseBytes int            // of the lists in bases
	bases     map[*datum]int // how many deltas wait that are from each list
	taken     int            // bytes of pushes in the last message
}

// Answer adds what became of registrations and subscriptions: accepted, stored,
// or refused.
func (o *Outbox) Answer(accepted, stored []Ack, refused []*wirev1.Refusal) {
	o.bytes += o.accepted.add(accepted) + o.stored.add(stored)
	o.refuse(refused...)
}

func (o *Outbox) refuse(refused ...*wirev1.Refusal) {
	for _, r := range refused {
		o.bytes += refusalBytes(r)
	}
	o.refused = append(o.refused, refused...)
}

func refusalBytes(r *wirev1.Refusal) int {
	return 2*entryBytes + len(r.GetId()) + len(r.GetCode()) + len(r.GetMessage())
}

// Configure adds a configuration value, as of an epoch that is not lower than
// that of the values before. It replaces one of the same id that was not sent
// yet.
func (o *Outbox) Configure(epoch *wirev1.Epoch, v *wirev1.WatchedValue) {
	if o.config == nil {
		o.config = map[string]*wirev1.WatchedValue{}
	}
	o.Unconfigure(v.GetId())
	o.config[v.GetId()], o.epoch = v, epoch
	o.bytes += configBytes(v)
}

func configBytes(v *wirev1.WatchedValue) int {
	return 2*entryBytes + len(v.GetId()) + len(v.GetValue())
}

// Unconfigure removes a configuration value that the client watches no more.
func (o *Outbox) Unconfigure(id string) {
	if v := o.config[id]; v != nil {
		delete(o.config, id)
		o.bytes -= configBytes(v)
	}
}

// Push adds a push. It replaces one of the same subscription that was not sent
// yet: the subscriber still has the base of that one, which is kept only while
// there is a delta from it and it fits into Limit, so that slow clients keep few old
// lists. A refusal removes what waits for the subscription, which has ended. It must be
// called under the registry's lock, like the methods of Registry.
func (o *Outbox) Push(p Push) {
	if p.withheld {
		o.forgetWithheld(p.ID)
		if o.withheld == nil {
			o.withheld = map[string]*wirev1.Refusal{}
		}
		o.withheld[p.ID] = p.refusal
		o.bytes += refusalBytes(p.refusal)
		return
	}
	if p.datum == nil {
		if o.Unsubscribe(p.ID); p.refusal != nil {
			o.refuse(p.refusal)
		}
		return
	}
	o.forgetWithheld(p.ID)
	if o.newest == nil {
		o.newest = map[string]unsent{}
	}
	base := p.base
	before, waits := o.newest[p.ID]
	if !waits {
		o.pushes = append(o.pushes, p.ID)
		o.bytes += entryBytes + len(p.ID)
	} else if base != nil {
		base = before.base
	}
	o.drop(before.base)
	if !o.mayKeep(base) {
		base = nil
	}
	waiting := p.unsent
	if waiting.delta = p.datum.since(base, waits); waiting.delta == nil {
		base = nil
	}
	waiting.base = base
	waiting.parts = waiting.delta == nil && p.parts
	if waiting.delta == nil && !waiting.parts && p.topic != nil && len(p.topic.subs) > 1 {
		waiting.encoded = p.datum.encode()
	}
	o.newest[p.ID] = waiting
	o.keep(waiting.base)
	if p.topic != nil {
		p.topic.bytes += waiting.size()
	}
}

// forgetWithheld removes what was to be reported of an earlier list of a subscription.
// Within a message, what is withheld is of later lists than those that are pushed.
func (o *Outbox) forgetWithheld(id string) {
	if r := o.withheld[id]; r != nil {
		delete(o.withheld, id)
		o.bytes -= refusalBytes(r)
	}
}

// takeWithheld removes and returns what is to be reported of lists that are withheld,
// without those of subscriptions for which an earlier list still waits: the error would
// end with its push.
func (o *Outbox) takeWithheld() (out []*wirev1.Refusal) {
	for id, r := range o.withheld {
		if _, waits := o.newest[id]; !waits && !o.parts.has(id) {
			out = append(out, r)
			o.forgetWithheld(id)
		}
	}
	slices.SortFunc(out, func(x, y *wirev1.Refusal) int { return strings.Compare(x.GetId(), y.GetId()) })
	return out
}

// size returns how many bytes the push takes, about.
func (u unsent) size() int {
	if u.delta != nil {
		return proto.Size(u.delta)
	}
	return u.datum.size()
}

// mayKeep reports whether a list may be kept as the base of a delta. A single one may
// have any size.
func (o *Outbox) mayKeep(base *datum) bool {
	return base == nil || o.Limit == 0 || len(o.bases) == 0 || o.bases[base] > 0 || o.baseBytes+base.size() <= o.Limit
}

// keep counts the base of a delta that waits, nil for none: each list once.
func (o *Outbox) keep(base *datum) {
	if base == nil {
		return
	}
	if o.bases == nil {
		o.bases = map[*datum]int{}
	}
	if o.bases[base]++; o.bases[base] == 1 {
		o.baseBytes += base.size()
	}
}

// drop takes it off again.
func (o *Outbox) drop(base *datum) {
	if base == nil {
		return
	}
	if o.bases[base]--; o.bases[base] == 0 {
		delete(o.bases, base)
		o.baseBytes -= base.size()
	}
}

// Unsubscribe removes what waits for a subscription that its client has ended. A
// client that subscribes and unsubscribes in turn would keep lists that the session
// has no longer.
func (o *Outbox) Unsubscribe(id string) {
	o.drop(o.newest[id].base)
	delete(o.newest, id)
}

// Exceeds reports whether more bytes of answers wait than Limit: the client does not
// read them.
func (o *Outbox) Exceeds() bool { return o.Limit > 0 && o.bytes > o.Limit }

// Taken returns how many bytes the pushes in the last message have, about.
func (o *Outbox) Taken() int { return o.taken }

// maxRefusals is how many refusals may wait for a client that does not read
// them.
const maxRefusals = 64 << 10

// Overflows reports whether more of them wait than the client may leave unread.
func (o *Outbox) Overflows() bool { return len(o.refused)+len(o.withheld) > maxRefusals }

// messageBytes limits the pushes in one message to a client.
const messageBytes = 1 << 20

// Answers removes and returns the next message without lists, and reports whether
// there is anything in it.
func (o *Outbox) Answers() (m *wirev1.ServerMessage, something bool) {
	m = &wirev1.ServerMessage{Welcome: o.Welcome, Sessions: o.Sessions, Pong: o.Pong}
	if o.Move != "" {
		m.Move = &wirev1.Move{Reason: o.Move, To: o.MoveTo}
	}
	if len(o.config) > 0 {
		m.Config = &wirev1.WatchedValues{Epoch: o.epoch}
		for _, id := range sortedKeys(o.config) {
			m.Config.Values = append(m.Config.Values, o.config[id])
			o.bytes -= configBytes(o.config[id])
		}
	}
	something = o.Welcome != nil || o.Sessions != nil || o.Pong != 0 || o.Move != "" || m.Config != nil
	o.Welcome, o.Sessions, o.Pong, o.Move, o.MoveTo, o.config = nil, nil, 0, "", "", nil
	take := func(a *acks) []*wirev1.Ack {
		out, bytes := a.next()
		o.bytes -= bytes
		return out
	}
	m.Accepted, m.Stored = take(&o.accepted), take(&o.stored)
	m.Refused, o.refused = o.refused, nil
	for _, r := range m.Refused {
		o.bytes -= refusalBytes(r)
	}
	return m, something || len(m.Accepted)+len(m.Stored)+len(m.Refused) > 0
}

// Next removes and returns the next message, or nil when nothing is left to be
// sent. A datum for several subscriptions of the connection is sent once.
func (o *Outbox) Next() *wirev1.ServerMessage {
	m, something := o.Answers()
	size, taken := 0, 0
	at := map[unsent]*wirev1.Push{}
	if o.parts != nil {
		m.Pushes = append(m.Pushes, o.nextPart())
		size = list.PartBytes
	}
	var behind []string // a list that is being sent in parts
	for _, subscription := range o.pushes {
		if size > messageBytes {
			break
		}
		taken++
		p, waits := o.newest[subscription]
		if waits && (o.parts.has(subscription) || o.parts != nil && p.parts && at[p] == nil) {
			behind = append(behind, subscription)
			continue
		}
		o.bytes -= entryBytes + len(subscription)
		if !waits { // it has ended
			continue
		}
		o.drop(p.base)
		delete(o.newest, subscription)
		if out := at[p]; out != nil {
			out.Subscriptions = append(out.Subscriptions, subscription)
			if p.parts && o.parts != nil {
				o.parts.subscriptions = out.Subscriptions
			}
			continue
		}
		out := p.push([]string{subscription})
		switch {
		case p.parts:
			o.parts = &inParts{unsent: p, subscriptions: out.Subscriptions}
			out = o.nextPart()
			size += list.PartBytes
		case p.delta != nil:
			out.Delta = p.delta
			size += p.size()
		case p.encoded: // sent as it is, as fields are that a message does not know
			out.ProtoReflect().SetUnknown(p.datum.encoded)
			size += p.size()
		default:
			out.Datum = p.datum.message
			size += p.size()
		}
		at[p] = out
		m.Pushes = append(m.Pushes, out)
	}
	o.taken = size
	if o.pushes = o.pushes[taken:]; len(behind) > 0 {
		o.pushes = append(behind, o.pushes...)
	}
	if len(o.pushes) == 0 { // an idle client keeps nothing
		o.pushes, o.newest = nil, nil
	}
	m.Withheld = o.takeWithheld()
	if !something && len(m.Withheld)+len(m.Pushes) == 0 {
		return nil
	}
	return m
}

// nextPart returns the next part of the push that is being sent in parts.
func (o *Outbox) nextPart() *wirev1.Push {
	push, last := o.parts.next()
	if last {
		o.parts = nil
	}
	return push
}

// push returns the push without its list.
func (u unsent) push(subscriptions []string) *wirev1.Push {
	return &wirev1.Push{Subscriptions: subscriptions, Hash: u.datum.Hash(), UnconfirmedMs: wire.Ms(u.unconfirmed)}
}

// inParts is a push that is being sent in parts.
type inParts struct {
	unsent
	subscriptions []string
	at            list.Position
}

// next returns the next part, and whether it is the last.
func (p *inParts) next() (push *wirev1.Push, last bool) {
	push = p.push(p.subscriptions)
	push.Datum = &wirev1.Datum{DataInfoId: p.datum.message.DataInfoId, Version: p.datum.version()}
	push.Part, p.at, last = p.datum.Part(push.Datum, p.at, list.PartBytes)
	return push, last
}

// has reports whether a push to the subscription is being sent. p may be nil.
func (p *inParts) has(subscription string) bool {
	return p != nil && slices.Contains(p.subscriptions, subscription)
}

const (
	entryBytes  = 64   // what an entry of an outbox takes beside its strings, about
	messageAcks = 4096 // how many of a kind one message to a client carries
)

// acks holds acknowledgements to be sent: the highest version of each id.
type acks struct {
	order   []string
	version map[string]int64
}

// add adds acknowledgements, and returns how many bytes more they take.
func (a *acks) add(more []Ack) (bytes int) {
	if a.version == nil && len(more) > 0 {
		a.version = make(map[string]int64, len(more))
	}
	for _, m := range more {
		have, waits := a.version[m.ID]
		if !waits {
			a.order = append(a.order, m.ID)
			bytes += entryBytes + len(m.ID)
		}
		a.version[m.ID] = max(have, m.Version)
	}
	return bytes
}

// next removes and returns as many as one message carries, and how many bytes they
// took.
func (a *acks) next() (out []*wirev1.Ack, bytes int) {
	n := min(len(a.order), messageAcks)
	block := make([]wirev1.Ack, n) // one allocation for all
	for i, id := range a.order[:n] {
		block[i].Id, block[i].Version = id, a.version[id]
		delete(a.version, id)
		out = append(out, &block[i])
		bytes += entryBytes + len(id)
	}
	if a.order = a.order[n:]; len(a.order) == 0 {
		*a = acks{}
	}
	return out, bytes
}
