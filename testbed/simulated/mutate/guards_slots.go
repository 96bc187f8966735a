package main

// The guards of a slot's last complete copy: which node is the replacement of a
// dead leader, and which nodes stay until another copy is complete.
var slotGuards = []guard{
	{name: "a complete copy on a forbidden node is left out", by: on("storm@1"), test: unit{"./slot", "TestArrange_GrantsSlotToForbiddenNodeWithLastCompleteCopy"}, patch: patch{
		"slot/replacement.go", "holders := those(s.Holders()[1:], a.up)", "holders := those(s.Holders()[1:], a.mayHold)"}},
	{name: "a protected slot goes to an empty node beside a complete copy", test: unit{"./slot", "TestArrange_FrozenTableKeepsCompleteCopies"}, by: on("restarted-while-it-is-protected"), patch: patch{
		"slot/replacement.go", "best := a.bestCopy(s, holders); !best.IsZero()", "best := a.bestCopy(s, holders); !best.IsZero() && !a.in.Frozen"}},
}
