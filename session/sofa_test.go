package session_test

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/blacklist"
	"conclave/data"
	"conclave/internal/trace"
	"conclave/session"
	"conclave/session/sofa"
	"conclave/wire"
)

func withSofa(c *session.Config) { c.SofaListen = "127.0.0.1:9600" }

// sofaBubble runs a test on a fresh cluster whose sessions serve clients of SOFARegistry.
func sofaBubble(t *testing.T, sessions int, run func(t *testing.T, c *cluster)) {
	bubble(t, 1, 0, func(t *testing.T, c *cluster) {
		for i := range sessions {
			c.startSession(fmt.Sprintf("session-%d", i+1), withSofa)
		}
		c.settle()
		run(t, c)
	})
}

const sofaModel = "com.alipay.sofa.registry.core.model."

// sofaClient is a client as the published ones are, on one connection.
type sofaClient struct {
	c      *cluster
	conn   net.Conn
	node   bool // it answers no heartbeats, like the client for Node
	silent bool // it answers nothing, from the start
	refuse int  // how many pushes it answers with a failure

	mu       sync.Mutex // guards the rest
	requests uint32
	answers  map[uint32]sofa.Frame
	pushes   []sofaPush
	configs  []string // the values, "-" for none
	ended    bool
}

type sofaPush struct {
	id, zone string
	version  int64
	values   []string // with their zones
	at       time.Time
}

func (c *cluster) sofaClient(name, session string, change ...func(*sofaClient)) *sofaClient {
	conn, err := c.host(name).DialContext(c.ctx, "tcp", session+":9600")
	require.NoError(c.t, err)
	x := &sofaClient{c: c, conn: conn, answers: map[uint32]sofa.Frame{}}
	for _, f := range change {
		f(x)
	}
	c.all.Go(x.receive)
	return x
}

// field returns a field of an object, nil if there is none.
func field(o *sofa.Object, name string) any {
	if at := slices.Index(o.Class.Fields, name); at >= 0 {
		return o.Values[at]
	}
	return nil
}

func (x *sofaClient) receive() {
	defer x.conn.Close()
	for {
		f, err := sofa.ReadFrame(x.conn)
		x.mu.Lock()
		if err != nil {
			x.ended = true
			x.mu.Unlock()
			return
		}
		answer := sofa.Frame{Command: f.Command + 1, ID: f.ID, Codec: 1}
		switch {
		case x.silent:
			answer.ID = 0
		case f.Type == sofa.Response:
			x.answers[f.ID] = f
			answer.ID = 0
		case f.Command == 0:
			if answer.Command = 0; x.node {
				answer.ID = 0
			}
		default:
			good := x.refuse == 0
			v, err := sofa.Decode(f.Content)
			if o, ok := v.(*sofa.Object); ok && err == nil {
				if x.take(o); !good {
					x.refuse--
				}
			}
			answer.Class = sofaModel + "Result"
			answer.Content = sofa.Encode(&sofa.Object{Class: &sofa.Class{Name: answer.Class, Fields: []string{"success", "message"}}, Values: []any{good, nil}})
		}
		x.mu.Unlock()
		if answer.ID != 0 {
			_, _ = x.conn.Write(answer.Append(nil))
		}
	}
}

// take records a push. mu is held.
func (x *sofaClient) take(o *sofa.Object) {
	if strings.HasSuffix(o.Class.Name, "ReceivedConfigData") {
		value := "-"
		if box, ok := field(o, "dataBox").(*sofa.Object); ok {
			value = field(box, "data").(string)
		}
		x.configs = append(x.configs, value)
		return
	}
	p := sofaPush{version: field(o, "version").(int64), zone: field(o, "localZone").(string), at: time.Now()}
	zones := field(o, "data").(*sofa.Map)
	for i, zone := range zones.Keys {
		for _, box := range zones.Values[i].(*sofa.List).Values {
			p.values = append(p.values, zone.(string)+"/"+field(box.(*sofa.Object), "data").(string))
		}
	}
	for _, id := range field(o, "subscriberRegistIds").(*sofa.List).Values {
		p.id = id.(string)
		x.pushes = append(x.pushes, p)
	}
}

// register is what a client sends.
type register struct {
	kind, id, data, zone, scope string
	version                     int64
	withdraw                    bool
	values                      []string
	token                       string
}

// send sends a request, and returns its id.
func (x *sofaClient) send(class string, content []byte) uint32 {
	x.mu.Lock()
	x.requests++
	id := x.requests
	x.mu.Unlock()
	_, err := x.conn.Write(sofa.Frame{Type: sofa.Request, Command: 1, ID: id, Codec: 1, Timeout: 1000, Class: class, Content: content}.Append(nil))
	require.NoError(x.c.t, err)
	return id
}

// start sends a register without waiting for the answer.
func (x *sofaClient) start(r register) uint32 {
	event, boxes, attributes := "REGISTER", &sofa.List{}, &sofa.Map{}
	if r.withdraw {
		event = "UNREGISTER"
	}
	box := &sofa.Class{Name: sofaModel + "DataBox", Fields: []string{"data"}}
	for _, v := range r.values {
		boxes.Values = append(boxes.Values, &sofa.Object{Class: box, Values: []any{v}})
	}
	if r.token != "" {
		attributes = &sofa.Map{Keys: []any{"!AccessKey"}, Values: []any{r.token}}
	}
	class := sofaModel + r.kind + "Register"
	return x.send(class, sofa.Encode(&sofa.Object{
		Class:  &sofa.Class{Name: class, Fields: strings.Fields("zone appName dataId group registId eventType version scope dataList attributes more")},
		Values: []any{r.zone, "shop", r.data, "DEFAULT_GROUP", r.id, event, max(r.version, 1), r.scope, boxes, attributes, 12.5},
	}))
}

// answered returns the answer to a request, once it is there.
func (x *sofaClient) answered(id uint32) (o *sofa.Object) {
	x.c.t.Helper()
	x.c.eventually(fmt.Sprint("request is answered: ", id), func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		f, ok := x.answers[id]
		if ok && f.Status == 0 {
			v, err := sofa.Decode(f.Content)
			require.NoError(x.c.t, err)
			o = v.(*sofa.Object)
		}
		return ok
	})
	return o
}

// register registers, and requires that this succeeds.
func (x *sofaClient) register(r register) {
	x.c.t.Helper()
	o := x.answered(x.start(r))
	require.NotNil(x.c.t, o)
	require.Equal(x.c.t, []any{true, r.id, max(r.version, 1), false}, []any{field(o, "success"), field(o, "registId"), field(o, "version"), field(o, "refused")}, "%v", field(o, "message"))
}

// shows returns a function that reports whether the newest push to a subscriber has
// exactly these values.
func (x *sofaClient) shows(id string, values ...string) func() bool {
	slices.Sort(values)
	return func() bool {
		last := x.last(id)
		return last != nil && slices.Equal(slices.Sorted(slices.Values(last.values)), values)
	}
}

func (x *sofaClient) last(id string) *sofaPush {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range slices.Backward(x.pushes) {
		if p.id == id {
			return &p
		}
	}
	return nil
}

func (x *sofaClient) seen() []sofaPush {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.pushes)
}

func (x *sofaClient) values() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.configs)
}

func (x *sofaClient) status(id uint32) sofa.Status {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.answers[id].Status
}

func (x *sofaClient) hasEnded() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ended
}

func TestSofa_ClientsOfBothKindsSeeEachOther(t *testing.T) {
	sofaBubble(t, 2, func(t *testing.T, c *cluster) {
		a, b := c.sofaClient("a", "session-1"), c.sofaClient("b", "session-2")
		b.register(register{kind: "Subscriber", id: "s-all", data: "svc", zone: "RZ1", scope: "dataCenter"})
		b.register(register{kind: "Subscriber", id: "s-zone", data: "svc", zone: "RZ1", scope: "zone"})
		c.eventually("nothing is published", b.shows("s-all"))
		reader := c.watch(c.client("reader", "session-1"), "svc")
		large := strings.Repeat("é", 20_000) + "🚀"
		a.register(register{kind: "Publisher", id: "p1", data: "svc", zone: "RZ1", values: []string{"10.0.0.1:80", large}})
		a.register(register{kind: "Publisher", id: "p2", data: "svc", values: []string{"10.0.0.2:80"}})
		c.published(c.client("writer", "session-2"), "svc", "10.0.0.3:80")
		c.eventually("by zones", b.shows("s-all", "RZ1/10.0.0.1:80", "RZ1/"+large, "DEFAULT_ZONE/10.0.0.2:80", "DEFAULT_ZONE/10.0.0.3:80"))
		c.eventually("one zone", b.shows("s-zone", "RZ1/10.0.0.1:80", "RZ1/"+large))
		c.eventually("in values", reader.shows(`10.0.0.1:80 {"zone":"RZ1"}`, large+` {"zone":"RZ1"}`, "10.0.0.2:80", "10.0.0.3:80"))
		assert.Equal(t, "RZ1", b.last("s-all").zone)
		version := b.last("s-all").version

		a.register(register{kind: "Publisher", id: "p1", data: "svc", zone: "RZ1", version: 2, values: []string{"10.0.0.9:80"}})
		a.register(register{kind: "Publisher", id: "p2", data: "svc", version: 2, withdraw: true})
		c.eventually("update and withdrawal", b.shows("s-all", "RZ1/10.0.0.9:80", "DEFAULT_ZONE/10.0.0.3:80"))
		assert.Greater(t, b.last("s-all").version, version)
		assert.Less(t, b.last("s-all").version, int64(1)<<53)
		b.register(register{kind: "Subscriber", id: "s-all", data: "svc", zone: "RZ1", scope: "dataCenter", version: 2, withdraw: true})
		pushes := len(b.seen())
		a.register(register{kind: "Publisher", id: "p1", data: "svc", zone: "RZ1", version: 3, values: nil})
		c.eventually("without values", b.shows("s-zone"))
		assert.Len(t, b.seen()[pushes:], 1, "the other one has ended")

		rows := c.list(c.sessions["session-1"].server.Address(), "/v1/clients")
		shown := []string{}
		for _, r := range rows {
			shown = append(shown, fmt.Sprintf("%v %v %v", r["name"], r["protocol"], r["registrations"]))
		}
		assert.ElementsMatch(t, []string{"shop sofa/1 1", "reader conclave/1 0"}, shown)
	})
}

func TestSofa_AnswersWhatItCannotRead(t *testing.T) {
	sofaBubble(t, 1, func(t *testing.T, c *cluster) {
		x := c.sofaClient("a", "session-1")
		sync := x.answered(x.send(sofaModel+"SyncConfigRequest", sofa.Encode(&sofa.Object{Class: &sofa.Class{Name: sofaModel + "SyncConfigRequest"}})))
		assert.Equal(t, []any{"DefaultDataCenter"}, field(sync, "availableSegments").(*sofa.List).Values)
		for class, status := range map[string]sofa.Status{"no.such.Class": 2, sofaModel + "PublisherRegister": 0x12} {
			id := x.send(class, []byte("@"))
			assert.Nil(t, x.answered(id))
			assert.Equal(t, status, x.status(id))
		}
		for _, r := range []register{
			{kind: "Publisher", id: "", data: "svc"}, {kind: "Publisher", id: "p", data: ""}, {kind: "Publisher", id: "p", data: "svc", zone: `a"`},
			{kind: "Configurator", id: "p", data: "a b"}, {kind: "Publisher", id: "request-p", data: "svc"},
			{kind: "Publisher", id: "p", data: "svc", values: []string{strings.Repeat("x", conclave.MaxValue+1)}},
		} {
			assert.Equal(t, true, field(x.answered(x.start(r)), "refused"), "%+v", r)
		}
		x.register(register{kind: "Publisher", id: "p", data: "svc", version: 3})
		assert.Equal(t, true, field(x.answered(x.start(register{kind: "Publisher", id: "p", data: "svc", version: 2})), "refused"), "a lower version")
		_, err := x.conn.Write([]byte(strings.Repeat("\x02", 30)))
		require.NoError(t, err)
		c.eventually("another protocol ends the connection", x.hasEnded)
	})
}

// A client that answers neither heartbeats nor pushes is gone, whatever else it does not do.
func TestSofa_AsksWhetherClientsLive(t *testing.T) {
	sofaBubble(t, 1, func(t *testing.T, c *cluster) {
		sub := c.watch(c.client("reader", "session-1"), "svc")
		java, node := c.sofaClient("java", "session-1"), c.sofaClient("node", "session-1", func(x *sofaClient) { x.node = true })
		java.register(register{kind: "Publisher", id: "java", data: "svc", values: []string{"java"}})
		node.register(register{kind: "Publisher", id: "node", data: "svc", values: []string{"node"}})
		silent := c.sofaClient("silent", "session-1", func(x *sofaClient) { x.silent = true })
		silent.start(register{kind: "Publisher", id: "silent", data: "svc", values: []string{"silent"}})
		c.eventually("all are seen", sub.shows("java", "node", "silent"))
		began := time.Now()
		c.eventually("one is gone", sub.shows("java", "node"))
		assert.Less(t, time.Since(began), 20*time.Second)
		time.Sleep(5 * time.Minute)
		assert.False(t, java.hasEnded() || node.hasEnded())
		assert.True(t, silent.hasEnded())
		assert.Empty(t, node.seen(), "an empty push is none")

		// Data asks again for what it has lost: the clients still prove that they live.
		kill(c, c.datas["data-1"])
		c.startData("data-1")
		c.eventually("data has all", func() bool { return len(c.stored("svc")) == 2 })
	})
}

// A client sleeps before it connects to another session. Nothing is missing meanwhile,
// also if its session was killed, or it lost the connection.
func TestSofa_NothingIsMissingWhileAClientComesBack(t *testing.T) {
	for name, lose := range map[string]func(c *cluster, x *sofaClient){
		"killed": func(c *cluster, _ *sofaClient) { kill(c, c.sessions["session-1"]) },
		"reset":  func(c *cluster, _ *sofaClient) { c.net.Reset("app", "session-1") },
		"drained": func(c *cluster, _ *sofaClient) {
			c.meta.forbid(blacklist.Entry{Name: "session-1", Role: conclave.RoleSession, Reason: "repair", By: "operator"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			sofaBubble(t, 2, func(t *testing.T, c *cluster) {
				sub := c.watch(c.client("reader", "session-2"), "svc")
				app := c.sofaClient("app", "session-1")
				app.register(register{kind: "Publisher", id: "p", data: "svc", values: []string{"a"}})
				c.eventually("it is seen", sub.shows("a"))
				seen := len(sub.all())
				lose(c, app)
				c.eventually("the connection has ended", app.hasEnded)
				time.Sleep(2 * time.Second)
				again := c.sofaClient("app", "session-2")
				again.register(register{kind: "Publisher", id: "p", data: "svc", values: []string{"a"}})
				again.register(register{kind: "Subscriber", id: "s", data: "svc", scope: "dataCenter"})
				c.eventually("it sees itself", again.shows("s", "DEFAULT_ZONE/a"))
				time.Sleep(time.Minute)
				for _, d := range sub.all()[seen:] {
					assert.Equal(t, []string{"a"}, d.Values)
				}
				again.conn.Close()
				closed := time.Now()
				c.eventually("and one that is dead goes", sub.shows())
				assert.Less(t, time.Since(closed), 4*time.Second)
			})
		})
	}
}

// What is left in the buffers of an old connection takes no registration back.
func TestSofa_TheLaterConnectionOwnsARegistration(t *testing.T) {
	sofaBubble(t, 1, func(t *testing.T, c *cluster) {
		sub := c.watch(c.client("reader", "session-1"), "svc")
		p := register{kind: "Publisher", id: "p", data: "svc", values: []string{"a"}}
		old, later := c.sofaClient("app", "session-1"), c.sofaClient("app", "session-1")
		old.register(register{kind: "Subscriber", id: "s", data: "svc"}) // so it is known by another register
		old.register(p)
		later.register(p)
		old.register(p)
		old.conn.Close()
		c.eventually("it is seen", sub.shows("a"))
		seen := len(sub.all())
		time.Sleep(time.Minute)
		assert.Len(t, sub.all(), seen)
	})
}

// A client connects again to its suspended session, whose kernel takes the register, and
// goes on at another one. What it has withdrawn there stays gone.
func TestSofa_SuspendedSessionRefusesWhatWaited(t *testing.T) {
	sofaBubble(t, 1, func(t *testing.T, c *cluster) {
		c.gate = trace.NewGate(nil)
		c.startSession("session-2", withSofa, func(config *session.Config) { config.Trace = c.gate.Sink })
		c.settle()
		sub := c.watch(c.client("reader", "session-1"), "svc")
		p := register{kind: "Publisher", id: "p", data: "svc", values: []string{"a"}}
		first := c.sofaClient("app", "session-2")
		first.register(p)
		c.eventually("it is seen", sub.shows("a"))
		c.gate.Hold("session-2", trace.Leasing)
		c.net.Pause("session-2")
		first.conn.Close()
		late := c.sofaClient("app", "session-2")
		waits := late.start(p)
		c.sofaClient("app", "session-1").register(register{kind: "Publisher", id: "p", data: "svc", version: 2, withdraw: true})
		c.eventually("its withdrawal is seen", sub.shows())
		time.Sleep(25 * time.Second) // the grace of the session, and of the tombstone
		seen := len(sub.all())

		c.net.Resume("session-2")
		o := late.answered(waits)
		assert.Equal(t, []any{false, false}, []any{field(o, "success"), field(o, "refused")})
		c.gate.Free("session-2")
		time.Sleep(3 * time.Second)
		assert.Len(t, sub.all(), seen)
		late.register(register{kind: "Publisher", id: "p", data: "svc", version: 3, values: []string{"b"}})
		c.eventually("what comes later is taken", sub.shows("b"))
	})
}

func TestSofa_RepeatsAPushThatFailed(t *testing.T) {
	sofaBubble(t, 1, func(t *testing.T, c *cluster) {
		x := c.sofaClient("a", "session-1", func(x *sofaClient) { x.refuse = 2 })
		c.published(c.client("writer"), "svc", "a")
		x.register(register{kind: "Subscriber", id: "s", data: "svc", scope: "global"})
		c.eventually("it is taken", func() bool { return len(x.seen()) == 3 })
		time.Sleep(time.Minute)
		assert.Len(t, x.seen(), 3)
		assert.True(t, x.shows("s", "DEFAULT_ZONE/a")())
		assert.GreaterOrEqual(t, x.seen()[2].at.Sub(x.seen()[0].at), 2*time.Second)
	})
}

func TestSofa_ConfiguratorsAreSentConfigurationValues(t *testing.T) {
	sofaBubble(t, 1, func(t *testing.T, c *cluster) {
		x := c.sofaClient("a", "session-1")
		x.register(register{kind: "Configurator", id: "c1", data: "limit"})
		x.register(register{kind: "Configurator", id: "c2", data: "limit"})
		c.eventually("there is none", func() bool { return len(x.values()) >= 2 && x.values()[0] == "-" })
		before := len(x.values())
		c.meta.setConfig(wire.ConfigValue{ID: "limit", Value: "5", Epoch: conclave.Epoch{Term: 1, Seq: 1}})
		c.eventually("it is set", func() bool { return slices.Equal(x.values()[before:], []string{"5", "5"}) })
		x.register(register{kind: "Configurator", id: "c1", data: "limit", version: 2, withdraw: true})
		c.meta.setConfig(wire.ConfigValue{ID: "limit", Value: "6", Epoch: conclave.Epoch{Term: 1, Seq: 2}})
		c.eventually("it is changed", func() bool { return slices.Equal(x.values()[before+2:], []string{"6"}) })
	})
}

func TestSofa_RegistersWithAToken(t *testing.T) {
	bubble(t, 0, 0, func(t *testing.T, c *cluster) {
		f := newTokenFile(t)
		c.startData("data-1", func(d *data.Config) { d.Tokens = f.tokens })
		c.startSession("session-1", withSofa, func(s *session.Config) { s.Tokens = f.tokens })
		c.settle()
		p := register{kind: "Publisher", id: "p", data: "svc", values: []string{"a"}}
		x := c.sofaClient("a", "session-1")
		for token, refused := range map[string]bool{"": false, "guess": false} {
			p.token = token
			o := x.answered(x.start(p))
			assert.Equal(t, []any{false, refused}, []any{field(o, "success"), field(o, "refused")}, "it comes again: %v", field(o, "message"))
		}
		p.token = "p-token"
		x.register(p)
		reader := c.sofaClient("b", "session-1")
		reader.register(register{kind: "Subscriber", id: "s", data: "svc", token: "r-token"})
		p.id, p.token = "q", "r-token"
		assert.Equal(t, true, field(reader.answered(reader.start(p)), "refused"))
		f.write(strings.Replace(tokenLines, "publish shop p-token\n", "", 1))
		c.eventually("its token was revoked", x.hasEnded)
		assert.False(t, reader.hasEnded())
	})
}

func TestSofa_ListsTheSessionsThatTakeClients(t *testing.T) {
	sofaBubble(t, 2, func(t *testing.T, c *cluster) {
		query := func(path string) string {
			code, body := c.get(c.sessions["session-2"].server.Address(), "/api/servers/"+path)
			assert.Equal(t, http.StatusOK, code)
			return body
		}
		c.eventually("both", func() bool { return query("query?zone=null&appName=a") == "session-1:9600;session-2:9600" })
		c.client("sdk", "session-2")
		time.Sleep(5 * time.Second)
		assert.Equal(t, "session-1:9600?weight=0;session-2:9600?weight=0", query("queryWithWeight"), "or a client would try the lighter one only")
		assert.JSONEq(t, `["session-1:9600", "session-2:9600"]`, query("query.json"))
		c.meta.forbid(blacklist.Entry{Name: "session-1", Role: conclave.RoleSession, Reason: "repair", By: "operator"})
		c.eventually("one drains", func() bool { return query("query") == "session-2:9600" })
		x := c.sofaClient("late", "session-1")
		x.start(register{kind: "Publisher", id: "p", data: "svc"})
		c.eventually("it takes no client", x.hasEnded)
	})
	bubble(t, 0, 1, func(t *testing.T, c *cluster) {
		code, body := c.get(c.sessions["session-1"].server.Address(), "/api/servers/query")
		assert.Equal(t, http.StatusNotFound, code)
		assert.Contains(t, body, "--sofa-listen")
	})
}
