package main

// What keeps work in proportion to what has changed, and what must not be lost
// by that.
var linearGuards = []guard{
	{name: "a datum that was emptied under a mark is never forgotten", test: unit{"./data/store", "TestPrune_VisitsOnlyEmptiedData"}, patch: patch{
		"data/store/store.go", "\t\ts.emptied[d.id] = true\n", ""}},
	{name: "a slot that is written is compared in each round", test: unit{"./data", "TestReplica_ComparisonWaitsWhileTheSessionWrites"}, patch: patch{
		"data/repair.go", "return writes && w.rounds <= writingRounds &&", "return writes && w.rounds < 0 &&"}},
	{name: "a slot that is written is never compared", test: unit{"./data", "TestReplica_ComparisonWaitsWhileTheSessionWrites"}, patch: patch{
		"data/repair.go", "return writes && w.rounds <= writingRounds &&", "return writes && w.rounds <= 1000*writingRounds &&"}},
	{name: "a mark waits for a comparison that is postponed", test: unit{"./data", "TestReplica_ComparisonWaitsWhileTheSessionWrites"}, patch: patch{
		"data/repair.go", " <= writingRounds && !r.partial[session]\n", " <= writingRounds\n"}},
	{name: "a comparison without room is postponed again", test: unit{"./data", "TestRepair_WritingSessionsAreComparedInTurn"}, patch: patch{
		"data/repair.go", "return writes && w.rounds <= writingRounds &&", "return writes && w.rounds%(writingRounds+1) > 0 &&"}},
	{name: "the first session of a slot is always compared first", test: unit{"./data", "TestRepair_WritingSessionsAreComparedInTurn"}, patch: patch{
		"data/repair.go", "return cmp.Compare(r.dirty[b], r.dirty[a])", "return cmp.Compare(0, 0)"}},
}
