package main

// The guards of a slot's last complete copy: which node is the replacement of a
// dead leader, and which nodes stay until another copy is complete.
var slotGuards = []guard{
	{name: "a complete copy on a forbidden node is left out", by: on("storm@1"), test: unit{"./slot", "TestArrange_GrantsSlotToForbiddenNodeWithLastCompleteCopy"}, patch: patch{
		"slot/replacement.go", "holders := slices.DeleteFunc(s.Holders()[1:], func(n conclave.NodeID) bool { return !a.up(n) })",
		"holders := slices.DeleteFunc(s.Holders()[1:], func(n conclave.NodeID) bool { return !a.mayHold(n) })"}},
	{name: "a copy that is still loading inherits like a complete one", test: unit{"./slot", "TestArrange_GrantsSlotToForbiddenNodeWithLastCompleteCopy"}, patch: patch{
		"slot/replacement.go", "return !r.complete() || r.Epoch != newest", "return r.Epoch != newest"}},
	{name: "a forbidden node inherits though an allowed one has a complete copy", test: unit{"./slot", "TestArrange_GrantsSlotToForbiddenNodeWithLastCompleteCopy"}, patch: patch{
		"slot/replacement.go", "cmp.Or(compareBool(a.mayLead(n), a.mayLead(m)), compareBool(a.mayHold(n), a.mayHold(m)), a.compareCopies(s, m, n))", "cmp.Or(0, a.compareCopies(s, m, n))"}},
	{name: "a replacement is chosen before all holders have reported", test: unit{"./slot", "TestArrange_EachPartDies"}, patch: patch{
		"slot/replacement.go", "return a.silent[n] }", "return a.silent[n] && !a.up(n) }"}},
	{name: "a row without a replacement forgets its places", test: unit{"./slot", "TestArrange_RowWithoutReplacementStays"}, patch: patch{
		"slot/arrange.go", "if !a.up(a.t.Slots[i].Leader) {\n\t\t\tcontinue", "if !a.up(a.t.Slots[i].Leader) && a.in.Frozen {\n\t\t\tcontinue"}},
	{name: "a source goes for a follower that is still loading", test: unit{"./slot", "TestArrange_SourceStaysUntilFollowerIsComplete"}, patch: patch{
		"slot/arrange.go", "a.up(s.Source) && a.completeSince(s, s.SourceEpoch) <", "a.up(s.Source) && len(s.Followers) <"}},
	{name: "a follower stops though its leader is dead", test: unit{"./slot", "TestDrained_FalseWhileLeaderIsDead"}, patch: patch{
		"slot/drained.go", "served := (s.Phase == Stable || s.Phase == Preparing) && slices.Contains(live, s.Leader)", "served := true"}},
	{name: "a protected slot goes to an empty node beside a complete copy", test: unit{"./slot", "TestArrange_FrozenTableKeepsCompleteCopies"}, by: on("restarted-while-it-is-protected"), patch: patch{
		"slot/replacement.go", "best := a.bestCopy(s, holders); !best.IsZero()", "best := a.bestCopy(s, holders); !best.IsZero() && !a.in.Frozen"}},
	{name: "a protected slot is taken from a leader that is only missing", test: unit{"./slot", "TestArrange_FrozenTableKeepsCompleteCopies"}, patch: patch{
		"slot/replacement.go", "if a.in.Frozen && own.IsZero() {", "if a.in.Frozen && own.IsZero() && len(s.Followers) == 0 {"}},
}
