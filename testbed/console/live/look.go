package live

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"conclave/meta/metaclient"
	"conclave/testbed"
	"conclave/testbed/console"
	"conclave/testbed/outside"
)

// askLimit bounds one request: a node that does not answer delays nothing else.
const askLimit = 400 * time.Millisecond

// renewal is by how much a renewal moves the end of the leader's trust, at least.
const renewal = 200 * time.Millisecond

// looker looks at a cluster.
type looker struct {
	http      *http.Client
	tokenFor  func(address string) string
	processes func(ctx context.Context) ([]testbed.Status, error)
}

// sight is what one look has seen.
type sight struct {
	at        time.Time
	processes []testbed.Status
	believes  map[string]bool // metas that report that they lead
	leader    metaclient.LeaderInfo
	trust     time.Time // when the leader's trust ends if it is not renewed
	slots     metaclient.SlotsInfo
	nodes     []metaclient.NodeInfo
	listed    []metaclient.BlacklistInfo
	elections []metaclient.Election
	clients   map[string][]console.Client // by session
	partial   bool                        // no meta has answered for a leader: the fields of the leader are those of the look before
}

// look asks everything at the same time. What only a leader can answer stays as it
// was before, if none does.
func (l *looker) look(ctx context.Context, before *sight) (*sight, error) {
	rows, err := l.processes(ctx)
	if err != nil {
		return nil, err
	}
	s := &sight{at: time.Now(), processes: rows, believes: map[string]bool{}, clients: map[string][]console.Client{}, partial: true}
	ctx, cancel := context.WithTimeout(ctx, 2*askLimit)
	defer cancel()
	var mu sync.Mutex // guards s
	var all sync.WaitGroup
	leader := func(meta testbed.Status) {
		info, err := ask(ctx, l.admin(meta.HTTP), (*metaclient.Admin).Leader)
		mu.Lock()
		defer mu.Unlock()
		if err == nil && info.Term > s.leader.Term {
			s.leader, s.trust = info, time.Now().Add(time.Duration(info.LeaseRemainingMs)*time.Millisecond)
		}
	}
	var metas []testbed.Status
	for _, p := range rows {
		if p.PID == 0 && p.State != "unreachable" && p.State != "ready" || p.State == "suspended" {
			continue
		}
		switch p.Role {
		case "meta":
			metas = append(metas, p)
			all.Go(func() {
				leads := l.ok(ctx, p.HTTP, "/leaderz")
				mu.Lock()
				s.believes[p.Name] = leads
				mu.Unlock()
				if leads { // the others would ask it
					leader(p)
				}
			})
		case "session":
			all.Go(func() {
				found := l.sessionClients(ctx, p)
				mu.Lock()
				defer mu.Unlock()
				s.clients[p.Name] = found
			})
		}
	}
	all.Wait()
	if s.leader.Term == 0 { // none leads, or not one that answers here
		for _, p := range metas {
			all.Go(func() { leader(p) })
		}
		all.Wait()
	}
	if before != nil {
		if s.leader.Term == before.leader.Term && s.trust.Sub(before.trust).Abs() < renewal {
			s.trust = before.trust // no renewal, only how long the answer took
		}
		if s.leader.Term < before.leader.Term { // none leads, or who answers knows of an older one
			s.leader = metaclient.LeaderInfo{Term: before.leader.Term}
		}
		s.slots, s.nodes, s.listed, s.elections = before.slots, before.nodes, before.listed, before.elections
	}
	for _, address := range l.metas(rows, s.leader.Leader) {
		if l.lead(ctx, address, s) {
			s.partial = false
			break
		}
	}
	return s, nil
}

// metas returns the addresses of the metas that run, the leader's first.
func (l *looker) metas(rows []testbed.Status, leader string) (out []string) {
	for _, p := range rows {
		switch {
		case p.Role != "meta" || p.PID == 0 && p.State != "ready" || p.State == "suspended":
		case p.Name == leader:
			out = slices.Insert(out, 0, p.HTTP)
		default:
			out = append(out, p.HTTP)
		}
	}
	return out
}

// lead asks the meta at an address for what the leader knows, and reports whether
// it has answered everything.
func (l *looker) lead(ctx context.Context, address string, s *sight) bool {
	admin := l.admin(address)
	var all sync.WaitGroup
	errs := make([]error, 4)
	var got sight
	all.Go(func() { got.slots, errs[0] = ask(ctx, admin, (*metaclient.Admin).Slots) })
	all.Go(func() {
		got.nodes, errs[1] = ask(ctx, admin, func(a *metaclient.Admin, ctx context.Context) ([]metaclient.NodeInfo, error) { return a.Nodes(ctx, "") })
	})
	all.Go(func() { got.listed, errs[2] = ask(ctx, admin, (*metaclient.Admin).Blacklist) })
	all.Go(func() { got.elections, errs[3] = ask(ctx, admin, (*metaclient.Admin).Elections) })
	all.Wait()
	if slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return false
	}
	s.slots, s.nodes, s.listed, s.elections = got.slots, got.nodes, got.listed, got.elections
	return true
}

func ask[T any](ctx context.Context, a *metaclient.Admin, get func(*metaclient.Admin, context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	return get(a, ctx)
}

func (l *looker) admin(metas ...string) *metaclient.Admin {
	return metaclient.NewAdmin(metaclient.AdminConfig{Metas: metas, HTTP: l.http, TokenFor: l.tokenFor})
}

// ok reports whether the node answers a GET of the path with 200.
func (l *looker) ok(ctx context.Context, address, path string) bool {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	return outside.Status(ctx, l.http, "http://"+address+path, l.tokenFor(address)) == http.StatusOK
}

// sessionClients returns the clients of a session.
func (l *looker) sessionClients(ctx context.Context, p testbed.Status) (out []console.Client) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var rows []struct {
		Name          string `json:"name"`
		Registrations int    `json:"registrations"`
	}
	status, err := outside.GetJSON(ctx, l.http, "http://"+p.HTTP+"/v1/clients", l.tokenFor(p.HTTP), &rows)
	if err != nil || status != http.StatusOK {
		return nil
	}
	for _, r := range rows {
		out = append(out, console.Client{Name: r.Name, Session: p.Name, Entries: r.Registrations})
	}
	return out
}

// Remote returns the processes of a cluster that is known by the addresses of its
// metas: those that the leader lists now or has listed before. A node that does not
// answer is unreachable.
func Remote(metas []string, c *http.Client, tokenFor func(address string) string) func(ctx context.Context) ([]testbed.Status, error) {
	known := map[string]testbed.Status{} // by address; only one goroutine asks
	for _, m := range metas {
		known[m] = testbed.Status{Name: m, Role: "meta", HTTP: m}
	}
	return func(ctx context.Context) ([]testbed.Status, error) {
		admin := metaclient.NewAdmin(metaclient.AdminConfig{Metas: metas, HTTP: c, TokenFor: tokenFor})
		nodes, err := ask(ctx, admin, func(a *metaclient.Admin, ctx context.Context) ([]metaclient.NodeInfo, error) { return a.Nodes(ctx, "") })
		if err == nil {
			for _, n := range nodes {
				for address, p := range known { // it may be known by another address
					if p.Name == n.Name && address != n.Address {
						delete(known, address)
					}
				}
				known[n.Address] = testbed.Status{Name: n.Name, Role: string(n.Role), HTTP: n.Address}
			}
		}
		out := slices.Collect(maps.Values(known))
		probeAll(ctx, c, out, func(testbed.Status) bool { return true })
		for _, p := range out {
			known[p.HTTP] = p
		}
		slices.SortFunc(out, func(a, b testbed.Status) int { return strings.Compare(a.Name, b.Name) })
		return slices.CompactFunc(out, func(a, b testbed.Status) bool { return a.Name == b.Name }), nil
	}
}

// Known returns the processes of list. Those with an address and no state run: what
// they answer is filled in.
func Known(list func() []testbed.Status, c *http.Client) func(ctx context.Context) ([]testbed.Status, error) {
	return func(ctx context.Context) ([]testbed.Status, error) {
		out := list()
		probeAll(ctx, c, out, func(p testbed.Status) bool { return p.HTTP != "" && p.State == "" })
		return out, nil
	}
}

// probe asks a node about itself. What it does not answer in time is zero.
func probe(ctx context.Context, c *http.Client, address string) outside.Condition {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	seen, _ := outside.Probe(ctx, c, address)
	return seen
}

// probeAll fills in what the nodes that match answer about themselves.
func probeAll(ctx context.Context, c *http.Client, nodes []testbed.Status, match func(testbed.Status) bool) {
	var all sync.WaitGroup
	for i := range nodes {
		if match(nodes[i]) {
			all.Go(func() { fill(&nodes[i], probe(ctx, c, nodes[i].HTTP)) })
		}
	}
	all.Wait()
}

// fill fills in what a node has answered.
func fill(p *testbed.Status, seen outside.Condition) {
	p.Why = seen.Why
	if seen.Name == "" {
		p.State = "unreachable"
		return
	}
	p.Name, p.Incarnation, p.State = seen.Name, seen.Incarnation, "ready"
	if !seen.Ready || seen.Why != "" {
		p.State = "starting"
		if strings.Contains(p.Why, "draining") {
			p.State = "draining"
		}
	}
}
