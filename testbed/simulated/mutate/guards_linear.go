package main

// What keeps work in proportion to what has changed, and what must not be lost
// by that.
var linearGuards = []guard{
	{name: "a datum that was emptied under a mark is never forgotten", test: unit{"./data/store", "TestPrune_VisitsOnlyEmptiedData"}, patch: patch{
		"data/store/store.go", "\t\ts.emptied[d.id] = true\n", ""}},
	{name: "a slot that is written is compared in each round", test: unit{"./data", "TestReplica_ComparisonWaitsWhileTheSessionWrites"}, patch: patch{
		"data/repair.go", "return (r.writing[session].rounds-1)%(writingRounds+1) > 0 &&", "return r.writing[session].rounds < 0 &&"}},
	{name: "a slot that is written is never compared", test: unit{"./data", "TestReplica_ComparisonWaitsWhileTheSessionWrites"}, patch: patch{
		"data/repair.go", "return (r.writing[session].rounds-1)%(writingRounds+1) > 0 &&", "return r.writing[session].rounds > 1 &&"}},
	{name: "a mark waits for a comparison that is postponed", test: unit{"./data", "TestReplica_ComparisonWaitsWhileTheSessionWrites"}, patch: patch{
		"data/repair.go", " > 0 && !r.partial[session]\n", " > 0\n"}},
}
