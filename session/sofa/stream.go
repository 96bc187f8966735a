package sofa

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"conclave"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// Times of a stream.
const (
	idle       = 90 * time.Second // after which a connection without a register ends, unless its client sends something
	pushWait   = 5 * time.Second  // for the answer to a push
	retryPush  = time.Second      // after which a push is repeated that was not taken, or refused for now
	retryLarge = 30 * time.Second // after which a subscription begins again whose list was too large
)

// pings is how often a client is asked in the time after which it counts as silent.
const pings = 3

// maxConfigurators is how many a client may have.
const maxConfigurators = wire.MaxWatches

// maxWaiting is how many registers of a client may wait for their answers. Those for Java
// wait for one.
const maxWaiting = 8 << 10

// maxID limits an id, and the name of a client, in bytes.
const maxID = 128

// TokenName is the attribute of a register that has a token of the cluster.
const TokenName = "!AccessKey"

// Stream is the connection of one client, which the session serves like those of others:
// what the client registers becomes messages, and those to it become frames. Await and
// Receive are called by one goroutine and read one frame each, Send by one, Alive by any.
//
// A client proves that it lives by an answer to a ping, at the time at which the ping was
// sent: whatever else it sends may have waited in buffers while it went on at another
// session.
type Stream struct {
	Config
	first   *received  // until Receive has returned it
	known   bool       // Receive has returned the hello
	leaves  bool       // the end of the connection was decided; of Send
	writing sync.Mutex // held while frames are written, which waits for the client

	mu            sync.Mutex // guards the rest
	requests      uint32     // number of the last request to the client
	messages      uint64     // number of the last message that Receive has returned
	pinged, alive time.Time  // when the last ping was sent, and the last one that was answered
	ping          uint32     // the request that is the last ping, until it was answered
	pongs, pushes bool       // the client answers heartbeats; it is sent empty pushes instead
	timer         *time.Timer
	zone          string                 // of all subscribers
	waiting       map[string]*received   // registers that were not answered, by id
	subscribers   map[string]*subscriber // by id
	configurators map[string]Register    // by id
	pushed        map[uint32]*sent       // pushes that were not answered, by request
	again         map[string]time.Time   // subscribers to which the list is to be pushed again, and when
}

// Config is what a Stream needs.
type Config struct {
	In      io.Reader     // what the client sends
	Conn    net.Conn      // what it is sent
	Silence time.Duration // after which a client without an answer to a ping is gone
	// Leave returns after which time the connection ends by which the client is to leave
	// the session: it knows no other way.
	Leave func() time.Duration
	// Subscriptions is how many the session takes of a client; 0: any number.
	Subscriptions int
}

// received is a register with the request in which it came.
type received struct {
	Register
	request uint32
	message uint64 // in which Receive has returned it
}

type subscriber struct {
	Register
	request uint32 // the last push
}

// sent is a push to subscribers.
type sent struct {
	ids []string
	at  time.Time
}

// NewStream returns the stream of a connection.
func NewStream(c Config) *Stream {
	s := &Stream{Config: c}
	s.await()
	return s
}

// await lets the connection stay for a while without a register.
func (s *Stream) await() {
	_ = s.Conn.SetDeadline(time.Now().Add(idle)) // fails only when the connection has ended
}

// Await reads a frame. If that is the client's first register, Receive returns it next, and
// Await returns its token. Until then a client needs nothing of the session.
func (s *Stream) Await() (token string, registers bool, err error) {
	m, err := s.read()
	if err != nil {
		return "", false, err
	}
	s.await()
	r, registers := m.(received)
	if registers {
		s.first = &r
	}
	return r.Attributes[TokenName], registers, nil
}

// Refuse answers the register that Await has returned. It comes again.
func (s *Stream) Refuse(because error) error {
	return s.write(s.respond(nil, *s.first, false, false, because.Error()))
}

// Alive returns when the client is known to have lived last.
func (s *Stream) Alive() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alive
}

// Receive returns the hello of the client, and then its messages, or nil for a frame that
// is none. Each message is a ping, so that Send learns when it was handled; see Alive.
func (s *Stream) Receive() (*wirev1.ClientMessage, error) {
	if !s.known {
		s.known = true
		s.mu.Lock()
		defer s.mu.Unlock()
		s.alive = time.Now()
		_ = s.Conn.SetWriteDeadline(time.Time{}) // from now on a client that does not read is silent
		return &wirev1.ClientMessage{Hello: s.first.hello()}, nil
	}
	in, err := s.next()
	switch in := in.(type) {
	case received:
		return s.take(in)
	case Frame:
		return s.answered(in), err
	}
	return nil, err
}

// hello returns the hello of a client. Whoever knows the id of a register could replace
// what it has registered, so that of the client only follows from it.
func (r received) hello() *wirev1.ClientHello {
	id, name := sha256.Sum256([]byte(r.ID)), r.App
	if len(name) > maxID {
		name = strings.ToValidUTF8(name[:maxID], "")
	}
	return &wirev1.ClientHello{Client: "sofa-" + hex.EncodeToString(id[:8]), Name: name}
}

// next returns the first register, and then what read returns.
func (s *Stream) next() (any, error) {
	if first := s.first; first != nil {
		s.first = nil
		return *first, nil
	}
	return s.read()
}

// End stops asking the client whether it lives.
func (s *Stream) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.timer = nil
}

// read reads a frame. It returns a register, or an answer to a request, as a Frame, or nil.
func (s *Stream) read() (any, error) {
	f, err := ReadFrame(s.In)
	switch {
	case err != nil:
		return nil, err
	case f.Type == Response:
		return f, nil
	case f.Type == OneWay:
		return nil, nil
	}
	return s.requested(f)
}

// requested returns the register in a request. It answers everything else, and what cannot
// be read.
func (s *Stream) requested(f Frame) (any, error) {
	answer := Frame{Type: Response, Command: response, ID: f.ID, Codec: f.Codec}
	if f.Command == heartbeat {
		answer.Command = heartbeat
		return nil, s.write(answer.Append(nil))
	}
	m, err := ParseMessage(f)
	if r, ok := m.(Register); ok && err == nil {
		return received{Register: r, request: f.ID}, nil
	}
	switch {
	case errors.Is(err, errUnknownClass):
		answer.Status = statusException
	case err != nil:
		answer.Status = statusUnreadable
	default: // a SyncConfig, or a Result that answers nothing
		answer = answer.with(settings())
	}
	return nil, s.write(answer.Append(nil))
}

// with returns the frame with a content.
func (f Frame) with(o *Object) Frame {
	f.Codec, f.Class, f.Content = hessian, o.Class.Name, Encode(o)
	return f
}

// respond appends the answer to a register.
func (s *Stream) respond(b []byte, r received, success, refused bool, message string) []byte {
	return Frame{Type: Response, Command: response, ID: r.request}.with(answer(r.ID, r.Version, success, refused, message)).Append(b)
}

// send appends a request, and returns its number. mu is held.
func (s *Stream) send(b []byte, f Frame) ([]byte, uint32) {
	s.requests++
	f.Type, f.ID, f.Codec = Request, s.requests, hessian
	return f.Append(b), s.requests
}

func (s *Stream) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := s.Conn.Write(b)
	return err
}

// check asks the client whether it lives, and ends the connection if it has been silent
// for too long. A client that has never answered a heartbeat is sent a push to no
// subscriber, less often because the published one for Node, which answers that, logs it.
func (s *Stream) check() {
	if ping := s.nextPing(time.Now()); ping != nil {
		defer s.writing.Unlock()
		_, _ = s.Conn.Write(ping) // after an error reads fail, too
	}
}

// nextPing returns the ping that is to be sent now, and takes the lock for it; nil for none.
func (s *Stream) nextPing(now time.Time) (b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	silent := now.Sub(s.alive)
	switch {
	case s.timer == nil:
		return nil
	case silent > s.Silence:
		_ = s.Conn.Close()
		return nil
	}
	pause := s.Silence / pings
	if s.pushes {
		pause *= 2
	}
	s.timer.Reset(pause)
	if s.ping != 0 && !s.pongs && !s.pushes && silent > s.Silence/2 {
		s.ping, s.pushes = 0, true
	}
	if s.ping != 0 || !s.writing.TryLock() { // what is being written shows soon whether it lives
		return nil
	}
	if s.pushes {
		b, s.ping = s.request(nil, push(Register{}, nil, 0, nil))
	} else {
		b, s.ping = s.send(nil, Frame{Command: heartbeat, Timeout: -1})
	}
	s.pinged = now
	return b
}

// answered takes an answer to a request. That to a ping is a message, with the
// subscriptions that begin again.
func (s *Stream) answered(f Frame) *wirev1.ClientMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.ping != 0 && f.ID == s.ping {
		s.ping, s.alive, s.pongs = 0, s.pinged, s.pongs || f.Command == heartbeat
		return s.message(&wirev1.ClientMessage{Subscribe: s.repeated(now)})
	}
	if p, known := s.pushed[f.ID]; known {
		remove(&s.pushed, f.ID)
		if m, err := ParseMessage(Frame{Codec: f.Codec, Class: f.Class, Content: f.Content}); err != nil || m != any(Result{true}) {
			s.repeat(p.ids, now.Add(retryPush))
		}
	}
	return nil
}

// repeat has the list pushed again to subscribers.
func (s *Stream) repeat(ids []string, at time.Time) {
	for _, id := range ids {
		if s.subscribers[id] != nil {
			put(&s.again, id, at)
		}
	}
}

// repeated returns the subscriptions that begin again now.
func (s *Stream) repeated(now time.Time) (out []*wirev1.Subscription) {
	for request, p := range s.pushed {
		if now.Sub(p.at) > pushWait {
			remove(&s.pushed, request)
			s.repeat(p.ids, now)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.again)) {
		if !s.again[id].After(now) {
			remove(&s.again, id)
			out = append(out, s.subscribers[id].subscription())
		}
	}
	return out
}

// message numbers a message. mu is held.
func (s *Stream) message(m *wirev1.ClientMessage) *wirev1.ClientMessage {
	s.messages++
	m.Ping = s.messages
	return m
}

// scopes are those of a subscriber; those of other registers mean nothing.
var scopes = []string{"", "zone", "dataCenter", "global"}

// final are the codes of refusals that another attempt does not change.
var final = []wire.Code{wire.CodeBadRequest, wire.CodeForbidden, wire.CodeConflict, wire.CodeTooLarge}

// take returns a register as a message, or nil if it was refused.
func (s *Stream) take(r received) (*wirev1.ClientMessage, error) {
	data, err := conclave.NewDataInfoID(r.DataID, r.Instance, r.Group)
	r.Instance, r.Group, r.App, r.Attributes = data.Instance, data.Group, "", nil
	if err == nil { // before they are copied: one may be there any number of times
		err = conclave.ValidateValues(r.Values)
	}
	s.mu.Lock()
	known := s.subscribers[r.ID] != nil
	switch {
	case err != nil:
		err = wire.Errorf(wire.CodeBadRequest, "%v", err)
	case r.ID == "" || len(r.ID) > maxID:
		err = wire.Errorf(wire.CodeBadRequest, "registId %.20q: want 1 to %d bytes", r.ID, maxID)
	case !slices.Contains(scopes, r.Scope):
		err = wire.Errorf(wire.CodeBadRequest, "scope %.20q: want zone, dataCenter or global", r.Scope)
	case r.Kind == Subscriber && s.zone != "" && r.Zone != s.zone: // a list is encoded for each
		err = wire.Errorf(wire.CodeBadRequest, "zone %.20q: the client has subscribed in zone %s", r.Zone, s.zone)
	case r.Kind == Subscriber && !known && !r.Withdrawn && s.Subscriptions > 0 && len(s.subscribers) >= s.Subscriptions:
		err = wire.Errorf(wire.CodeLimitReached, "the client has %d subscribers, which is the limit", s.Subscriptions)
	case !ValidZone(r.Zone):
		err = wire.Errorf(wire.CodeBadRequest, "zone %.20q: want 1 to 128 bytes, without quotation marks", r.Zone)
	case r.Kind == Configurator && (!wire.ValidConfigID(r.DataID) || len(s.configurators) >= maxConfigurators):
		err = wire.Errorf(wire.CodeBadRequest, "dataId %.128q: a configuration value has letters, digits, dots, hyphens and underscores, and there are %d at most", r.DataID, maxConfigurators)
	}
	if err != nil {
		s.mu.Unlock()
		good := slices.Contains(final, wire.CodeOf(err))
		return nil, s.write(s.respond(nil, r, good, good, err.Error()))
	}
	defer s.mu.Unlock()
	if len(s.waiting) >= maxWaiting {
		return nil, wire.Errorf(wire.CodeLimitReached, "%d registers wait for their answers", maxWaiting)
	}
	m := s.message(&wirev1.ClientMessage{})
	r.message = m.Ping
	switch r.Kind {
	case Publisher:
		p := &wirev1.Publisher{Id: r.ID, DataInfoId: data.String(), Version: r.Version, Withdrawn: r.Withdrawn}
		for _, v := range r.Values {
			p.Values = append(p.Values, Value(v, r.Zone))
		}
		m.Publishers, r.Values = []*wirev1.Publisher{p}, nil
	case Subscriber:
		remove(&s.again, r.ID)
		if r.Withdrawn {
			remove(&s.subscribers, r.ID)
			m.Unsubscribe = []string{r.ID}
			break
		}
		s.zone = r.Zone
		put(&s.subscribers, r.ID, &subscriber{Register: r.Register})
		m.Subscribe = []*wirev1.Subscription{s.subscribers[r.ID].subscription()}
	case Configurator:
		if !r.Withdrawn {
			put(&s.configurators, r.ID, r.Register)
			m.Watch = []string{r.DataID}
			break
		}
		remove(&s.configurators, r.ID)
		if !s.watches(r.DataID) {
			m.Unwatch = []string{r.DataID}
		}
	}
	put(&s.waiting, r.ID, &r)
	return m, nil
}

func (s *Stream) watches(dataID string) bool {
	for _, c := range s.configurators {
		if c.DataID == dataID {
			return true
		}
	}
	return false
}

func (s *subscriber) subscription() *wirev1.Subscription {
	data := conclave.DataInfoID{DataID: s.DataID, Instance: s.Instance, Group: s.Group}
	return &wirev1.Subscription{Id: s.ID, DataInfoId: data.String()}
}

// Send sends what of a message is for the client.
func (s *Stream) Send(m *wirev1.ServerMessage) error {
	if m.GetWelcome() != nil { // before, nothing was read
		s.mu.Lock()
		s.alive, s.timer = time.Now(), time.AfterFunc(s.Silence/pings, s.check)
		s.mu.Unlock()
	}
	if m.GetMove() != nil && !s.leaves {
		s.leaves = true
		time.AfterFunc(s.Leave(), func() { _ = s.Conn.Close() })
	}
	return s.write(s.frames(m))
}

// frames returns what of a message is for the client.
func (s *Stream) frames(m *wirev1.ServerMessage) (b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A client sends its registers again at another session, but not those that withdraw:
	// they must have reached data before it forgets them.
	done := func(acks []*wirev1.Ack, withdrawn bool) {
		for _, a := range acks {
			if r := s.waiting[a.GetId()]; r != nil && a.GetVersion() >= r.Version && (withdrawn || !r.Withdrawn) {
				b = s.done(b, *r)
			}
		}
	}
	done(m.GetAccepted(), false)
	done(m.GetStored(), true)
	for _, r := range m.GetRefused() {
		b = s.refused(b, r)
	}
	for _, p := range m.GetPushes() {
		b = s.push(b, p)
	}
	for _, v := range m.GetConfig().GetValues() {
		b = s.configure(b, wire.EpochIn(m.Config.Epoch), v)
	}
	if m.GetPong() > 0 {
		for _, id := range slices.Sorted(maps.Keys(s.waiting)) {
			if r := s.waiting[id]; r.Kind != Publisher && r.message <= m.Pong {
				b = s.done(b, *r)
			}
		}
	}
	return b
}

// done answers a register.
func (s *Stream) done(b []byte, r received) []byte {
	remove(&s.waiting, r.ID)
	return s.respond(b, r, true, false, "")
}

// refused answers a register that is refused, for good or until it comes again. A
// subscription that ends later begins again.
func (s *Stream) refused(b []byte, refusal *wirev1.Refusal) []byte {
	id, code := refusal.GetId(), wire.Code(refusal.GetCode())
	if r := s.waiting[id]; r != nil {
		remove(&s.waiting, id)
		remove(&s.subscribers, id)
		good := slices.Contains(final, code)
		return s.respond(b, *r, good, good, refusal.GetMessage())
	}
	pause := retryPush
	if code == wire.CodeTooLarge {
		pause = retryLarge
	}
	s.repeat([]string{id}, time.Now().Add(pause))
	return b
}

// view is what subscribers have in common that are sent the same push.
type view struct{ scope, zone string }

// push appends a list: one push for all subscribers with the same view of it.
func (s *Stream) push(b []byte, p *wirev1.Push) []byte {
	if p.GetDatum() == nil { // it was encoded for several clients
		whole := &wirev1.Push{}
		encoded, err := proto.Marshal(p)
		if err != nil || proto.Unmarshal(encoded, whole) != nil {
			s.repeat(p.GetSubscriptions(), time.Now().Add(retryPush))
			return b
		}
		p = whole
	}
	ids := map[view][]string{}
	var views []view // in the order of their first subscribers
	for _, id := range p.GetSubscriptions() {
		to := s.subscribers[id]
		if to == nil {
			continue
		}
		v := view{to.Scope, to.Zone}
		if ids[v] == nil {
			views = append(views, v)
		}
		ids[v] = append(ids[v], id)
		if p := s.pushed[to.request]; p != nil { // what it has not answered is old
			p.ids = slices.DeleteFunc(slices.Clone(p.ids), func(x string) bool { return x == id })
			if len(p.ids) == 0 {
				remove(&s.pushed, to.request)
			}
		}
	}
	for _, v := range views {
		zones := map[string][]string{}
		for _, value := range p.GetDatum().GetValues() {
			if data, zone := ZoneOf(value); v.scope != "zone" || zone == v.zone {
				zones[zone] = append(zones[zone], data)
			}
		}
		list := push(s.subscribers[ids[v][0]].Register, ids[v], p.GetDatum().GetVersion(), zones)
		var request uint32
		b, request = s.request(b, list)
		put(&s.pushed, request, &sent{ids[v], time.Now()})
		for _, id := range ids[v] {
			s.subscribers[id].request = request
		}
	}
	return b
}

// request appends a request with a content, and returns its number.
func (s *Stream) request(b []byte, o *Object) ([]byte, uint32) {
	return s.send(b, Frame{Command: request, Timeout: int32(pushWait / time.Millisecond)}.with(o))
}

// configure appends a configuration value for each configurator of it. Its version rises
// with the epoch, and stays below 2^53.
func (s *Stream) configure(b []byte, epoch conclave.Epoch, v *wirev1.WatchedValue) []byte {
	version := int64(min(epoch.Term, 1<<25-1)<<28 | min(epoch.Seq, 1<<28-1))
	for _, id := range slices.Sorted(maps.Keys(s.configurators)) {
		if c := s.configurators[id]; c.DataID == v.GetId() {
			b, _ = s.request(b, configure(c, version, v.GetValue(), v.GetSet()))
		}
	}
	return b
}
