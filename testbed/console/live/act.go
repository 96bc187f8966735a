package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"conclave/internal/trace"
	"conclave/meta/metaclient"
	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/console"
	"conclave/testbed/console/journal"
	"conclave/testbed/outside"
	"conclave/testbed/scenario"
	"conclave/wire"
)

// verb is what a name in a request stands for.
type verb struct {
	offer console.Offer
	verb  testbed.Verb
}

var nodes3 = []string{"meta", "session", "data"}

// verbs are the actions on a node, in the order of the page's menu.
var verbs = []verb{
	{console.Offer{Do: "kill", Label: "Kill -9", Says: "end the process at once; the kernel closes its connections", Roles: []string{"meta", "session", "data", "db"}, Risk: "fault"}, testbed.Kill},
	{console.Offer{Do: "terminate", Label: "Terminate", Says: "ask the process to stop; it hands over its work first", Roles: nodes3, Risk: "fault"}, testbed.Stop},
	{console.Offer{Do: "freeze", Label: "Freeze", Says: "suspend the process; its connections stay open and nothing is answered", Roles: []string{"meta", "session", "data", "db"}, Risk: "fault"}, testbed.Pause},
	{console.Offer{Do: "thaw", Label: "Thaw", Says: "continue the suspended process", Roles: []string{"meta", "session", "data", "db"}, Risk: "heal"}, testbed.Resume},
	{console.Offer{Do: "start", Label: "Start", Says: "start the process again, as a new incarnation", Roles: []string{"meta", "session", "data", "db"}, Risk: "heal"}, testbed.Start},
	{console.Offer{Do: "drain", Label: "Drain", Says: "put the node on the blacklist: its slots and clients go to other nodes", Roles: []string{"session", "data"}, Risk: "command"}, testbed.Forbid},
	{console.Offer{Do: "restore", Label: "Restore", Says: "remove the node from the blacklist", Roles: []string{"session", "data"}, Risk: "heal"}, testbed.Allow},
	{console.Offer{Do: "resign", Label: "Resign", Says: "make the leader hand over to another meta", Roles: []string{"meta"}, Risk: "command"}, testbed.Resign},
	{console.Offer{Do: "observe", Label: "Observe", Says: "make the meta an observer, which does not compete", Roles: []string{"meta"}, Risk: "command"}, testbed.Quit},
	{console.Offer{Do: "join", Label: "Compete", Says: "make the observer a candidate again", Roles: []string{"meta"}, Risk: "heal"}, testbed.Join},
	{console.Offer{Do: "isolate", Label: "Cut off", Says: "let nothing pass between it and all others", Roles: nodes3, Risk: "fault"}, testbed.Cut},
	{console.Offer{Do: "rejoin", Label: "Reconnect", Says: "end every cut of it", Roles: nodes3, Risk: "heal"}, testbed.Mend},
	{console.Offer{Do: "cut", Label: "Cut from", Says: "let nothing pass between the two, in either direction", Roles: nodes3, Peer: true, Risk: "fault"}, testbed.Cut},
	{console.Offer{Do: "mend", Label: "Mend to", Says: "end the cut between the two", Roles: nodes3, Peer: true, Risk: "heal"}, testbed.Mend},
}

// clusterOffers are the actions on the whole cluster.
var clusterOffers = []console.Offer{
	{Do: "heal", Label: "Heal all", Says: "end every fault that was injected here, and start what is down", Risk: "heal"},
	{Do: "load-up", Label: "Load up", Says: fmt.Sprintf("%d times as many changes of the console's clients", levelFactor), Risk: "fault"},
	{Do: "load-down", Label: "Load down", Says: "the level of load before", Risk: "heal"},
	{Do: "scenario", Label: "Play scenario", Says: "play a scenario of the library on this cluster", Risk: "fault"},
	{Do: "storm", Label: "Play storm", Says: "play a random scenario, which its seed determines", Risk: "fault"},
	{Do: "scenario-stop", Label: "Stop scenario", Says: "end the scenario and heal its faults", Risk: "heal"},
}

func (s *Source) Acts() console.Acts {
	if s.cfg.Cluster == nil {
		return console.Nobody
	}
	return console.Holder
}

// offers returns what can be done here.
func (s *Source) offers() (out []console.Offer) {
	if s.cfg.Cluster == nil {
		return nil
	}
	for _, v := range verbs {
		if o, ok := s.offer(v); ok {
			out = append(out, o)
		}
	}
	return append(out, clusterOffers...)
}

// offer returns what of a verb can be done here: to nodes of which roles, and to
// which peers.
func (s *Source) offer(v verb) (o console.Offer, ok bool) {
	if !v.offer.Peer {
		return v.offer, s.can.Allows(testbed.Step{Verb: v.verb}) == nil
	}
	o = v.offer
	o.Roles = nil
	all := append(slices.Clone(nodes3), testbed.Database)
	for _, role := range v.offer.Roles {
		for _, peer := range all {
			if s.can.Allows(testbed.Step{Verb: v.verb, Who: one(role), Whom: one(peer)}) != nil {
				continue
			}
			if !slices.Contains(o.Roles, role) {
				o.Roles = append(o.Roles, role)
			}
			if !slices.Contains(o.With, peer) {
				o.With = append(o.With, peer)
			}
		}
	}
	if ok = len(o.Roles) > 0; len(o.With) == len(all) {
		o.With = nil
	}
	return o, ok
}

// one selects a node of a role.
func one(role string) testbed.Selector {
	if role == testbed.Database {
		return testbed.Database
	}
	return testbed.Selector(role + "-1")
}

// action returns the action of a request on a node.
func (s *Source) action(r console.Request) (testbed.Action, error) {
	i := slices.IndexFunc(verbs, func(v verb) bool { return v.offer.Do == r.Do })
	if i < 0 {
		return testbed.Action{}, fmt.Errorf("unknown action %q", r.Do)
	}
	v := verbs[i]
	seen := s.before()
	known := func(name string) bool {
		return seen != nil && slices.ContainsFunc(seen.processes, func(p testbed.Status) bool { return p.Name == name && p.Role != "client" })
	}
	switch {
	case !known(r.Node):
		return testbed.Action{}, wire.Errorf(wire.CodeNotFound, "unknown node %q", r.Node)
	case !slices.Contains(v.offer.Roles, testbed.RoleOf(r.Node)):
		return testbed.Action{}, fmt.Errorf("%s does not apply to %s", r.Do, r.Node)
	case v.offer.Peer && (!known(r.Peer) || r.Peer == r.Node):
		return testbed.Action{}, fmt.Errorf("%s needs another node, got %q", r.Do, r.Peer)
	case v.verb == testbed.Resign && r.Node != seen.leader.Leader: // whoever leads would be asked
		return testbed.Action{}, wire.Errorf(wire.CodeBadRequest, "%s does not lead now", r.Node)
	}
	a := testbed.Action{Verb: v.verb, Node: r.Node}
	if v.offer.Peer {
		a.Peer = r.Peer
	}
	return a, s.can.Allows(testbed.Step{Verb: a.Verb, Who: testbed.Selector(a.Node), Whom: testbed.Selector(a.Peer)})
}

// Explain says what a request would do.
func (s *Source) Explain(ctx context.Context, r console.Request) (string, error) {
	if i := slices.IndexFunc(clusterOffers, func(o console.Offer) bool { return o.Do == r.Do }); i >= 0 {
		return s.explainCluster(r, clusterOffers[i])
	}
	a, err := s.action(r)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(verbs, func(v verb) bool { return v.offer.Do == r.Do })
	text := fmt.Sprintf("%s: %s.", strings.TrimSpace(verbs[i].offer.Label+" "+r.Node+" "+r.Peer), verbs[i].offer.Says)
	if a.Verb.IsCommand() {
		return text + s.effect(ctx, a), nil
	}
	return text + s.consequence(a), nil
}

// Why implements console.Source. What passes between processes is not known.
func (s *Source) Why(context.Context, console.Request) ([]journal.Link, error) {
	return nil, errors.New("what led to it is known of a simulated cluster and of a recording")
}

// History returns what was recorded for the checkers until now; nil before the first check.
func (s *Source) History() (h *check.History) {
	if rec := s.record.current(); rec != nil {
		h, _ = rec.SoFar(s.record.traced, nil)
	}
	return h
}

// effect returns what the leader says about a command that it is not to do.
func (s *Source) effect(ctx context.Context, a testbed.Action) string {
	if s.cfg.Aside != nil {
		return ""
	}
	seen := s.before()
	admin := s.looker.admin(s.looker.metas(seen.processes, seen.leader.Leader)...)
	ctx, cancel := context.WithTimeout(ctx, 2*askLimit)
	defer cancel()
	var e metaclient.Effect
	var err error
	switch dry := metaclient.DryRun(&e); a.Verb {
	case testbed.Resign:
		err = admin.Resign(ctx, dry)
	case testbed.Quit:
		err = admin.Quit(ctx, a.Node, dry)
	case testbed.Join:
		return "" // it cannot be tried
	case testbed.Forbid:
		err = admin.Forbid(ctx, a.Node, "console", "console", dry)
	case testbed.Allow:
		err = admin.Allow(ctx, a.Node, dry)
	}
	switch {
	case err != nil:
		return " The leader does not say what it would do: " + err.Error()
	case e.Refused:
		return " The leader would refuse it: " + e.Effect
	}
	return " The leader: " + e.Effect
}

// consequence says what a fault of a node means now.
func (s *Source) consequence(a testbed.Action) string {
	seen := s.before()
	n := nodes(seen, console.Slots(outside.Table(seen.slots), nil), s.cfg.Settings.Lease)[a.Node]
	breaks := a.Verb == testbed.Kill || a.Verb == testbed.Stop || a.Verb == testbed.Pause
	switch {
	case !breaks:
		return ""
	case n.Leads && a.Verb == testbed.Pause:
		return fmt.Sprintf(" It leads term %d: another meta takes over when its lease has expired.", seen.leader.Term)
	case n.Leads:
		return fmt.Sprintf(" It leads term %d: another meta takes over as term %d.", seen.leader.Term, seen.leader.Term+1)
	case n.Role == "data":
		return fmt.Sprintf(" It leads %d slots and follows %d: those that it leads go to other nodes.", n.Leading, n.Follows)
	case n.Role == "session":
		return fmt.Sprintf(" Its %d clients connect to another session.", n.Clients)
	case n.Role == "db":
		return " No election can be decided and no slot can move while the database is away; reads, writes and pushes go on."
	}
	return " It does not lead."
}

func (s *Source) explainCluster(r console.Request, o console.Offer) (string, error) {
	switch r.Do {
	case "scenario", "storm":
		of, err := s.scenario(r)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s: %s It has %d lines and takes about %s.", of.Name, scenario.FirstSentence(of.About), len(of.Lines), of.Until.Round(time.Second)), nil
	case "heal":
		s.mu.Lock()
		open := s.active.List()
		s.mu.Unlock()
		if len(open) == 0 {
			return "No fault lasts that was injected here; what is down is started.", nil
		}
		var out []string
		for _, a := range open {
			out = append(out, a.Undo().String())
		}
		return "It will " + strings.Join(out, ", ") + ".", nil
	}
	return o.Label + ": " + o.Says + ".", nil
}

// Act begins what a viewer asks for. What comes of it is an Outcome.
func (s *Source) Act(_ context.Context, r console.Request) error {
	switch r.Do {
	case "load-up":
		return s.record.setLevel(1)
	case "load-down":
		return s.record.setLevel(-1)
	case "scenario", "storm":
		return s.beginPlay(r)
	case "scenario-stop":
		return s.stopPlay()
	case "heal":
		return s.begin("heal all", false, s.heal)
	}
	a, err := s.action(r)
	if err != nil {
		return err
	}
	fault := !a.EndsFault() && !a.Verb.IsCommand()
	return s.begin(strings.TrimSpace(r.Do+" "+r.Node+" "+r.Peer), fault, func(ctx context.Context) error { return s.Do(ctx, a) })
}

// Inject begins an action that is not offered and has no outcome; an event shows why it
// failed.
func (s *Source) Inject(a testbed.Action) error {
	return s.spawn(func(ctx context.Context) { _ = s.Do(ctx, a) })
}

// begin begins an action whose outcome is shown.
func (s *Source) begin(what string, fault bool, do func(context.Context) error) error {
	return s.spawn(func(ctx context.Context) { s.outcome(ctx, what, fault, do) })
}

// spawn runs f in a goroutine that Run joins.
func (s *Source) spawn(f func(ctx context.Context)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.work == nil || s.ended || s.work.Err() != nil {
		return errors.New("the console is not running")
	}
	ctx := s.work
	s.failed = failure{}
	s.running.Go(func() { f(ctx) })
	return nil
}

// Do carries out an action, whether it is offered or not, and records it, also in the
// history of a scenario that is being played.
func (s *Source) Do(ctx context.Context, a testbed.Action) error {
	return s.do(ctx, a, s.record.histories())
}

// do is Do for the histories in which the action is not recorded otherwise.
func (s *Source) do(ctx context.Context, a testbed.Action, histories []*check.Recorder) error {
	if a.Verb == testbed.Kill || a.Verb == testbed.Pause {
		for _, rec := range histories {
			scenario.NoteAhead(rec, s.can, a.Node)
		}
	}
	began := time.Now()
	err := s.cfg.Cluster.Do(ctx, a)
	at := began
	if s.can.EffectTime != nil && err == nil && !a.EndsFault() {
		at = s.can.EffectTime(ctx, a, began)
	}
	for _, rec := range histories {
		note(rec, at, a, err)
	}
	e := console.Event{At: at.UnixMilli(), Node: a.Node, Kind: "fault", Text: a.String()}
	if err != nil {
		e.Kind, e.Text = "fault.failed", a.String()+": "+err.Error()
	} else {
		s.mu.Lock()
		s.active.Note(a)
		if a.Verb == testbed.Kill {
			s.beliefs.Left(a.Node, 0, at.UnixMilli())
		}
		s.mu.Unlock()
	}
	s.add(e)
	if err == nil {
		s.endWith(ctx, a)
	}
	return err
}

// endWith ends the faults that an action has ended as well: of the cuts between a node and
// all others, those from single ones; of a process, what it was held at.
func (s *Source) endWith(ctx context.Context, did testbed.Action) {
	s.mu.Lock()
	open := s.active.List()
	s.mu.Unlock()
	for _, a := range open {
		cut := did.Verb == testbed.Mend && did.Peer == "" && a.Undo().Verb == testbed.Mend && a.Peer != "" && (a.Node == did.Node || a.Peer == did.Node)
		held := did.Verb == testbed.Kill && a.Undo().Verb == testbed.Release && (a.Node == did.Node || did.Node == testbed.Database && a.Point == trace.Landing)
		if cut || held {
			_ = s.Do(ctx, a.Undo()) // an event shows why it failed
		}
	}
}

// healWithin limits a healing, which goes on when the console ends.
const healWithin = 15 * time.Second

// healStopped heals what a scenario that was stopped has left. If the console ends, no
// other process knows of it: it is healed before Run returns.
func (s *Source) healStopped() {
	if s.begin("heal all, after the scenario was stopped", false, s.heal) == nil || s.cfg.Ends {
		return
	}
	if err := s.heal(context.Background()); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.left = fmt.Errorf("heal what the scenario has left: %w", err)
	}
}

// heal ends what was injected here, in this order: what order does not name, links,
// holds and pauses; then it starts what is down, and takes back commands. Of each, what was
// done last is ended first.
func (s *Source) heal(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healWithin)
	defer cancel()
	s.mu.Lock()
	open := s.active.List()
	s.mu.Unlock()
	order := []testbed.Verb{testbed.Mend, testbed.Release, testbed.Resume, testbed.Start, testbed.Allow, testbed.Join}
	seen := s.before()
	if seen == nil {
		return errors.New("nothing is known of the cluster yet")
	}
	var undo []testbed.Action
	for _, a := range slices.Backward(open) {
		undo = append(undo, a.Undo())
	}
	for _, p := range seen.processes {
		if down := p.State == "killed" || p.State == "exited"; down && p.Role != "client" &&
			!slices.ContainsFunc(undo, func(a testbed.Action) bool { return a.Verb == testbed.Start && a.Node == p.Name }) {
			undo = append(undo, testbed.Action{Verb: testbed.Start, Node: p.Name})
		}
	}
	slices.SortStableFunc(undo, func(a, b testbed.Action) int {
		return cmp.Compare(slices.Index(order, a.Verb), slices.Index(order, b.Verb))
	})
	var errs []error
	for _, a := range undo {
		errs = append(errs, s.Do(ctx, a))
	}
	return errors.Join(errs...)
}
