package bench

import (
	"fmt"
	"slices"
	"strings"
)

func registrationBound(c GrowthConfig) int { return c.MaxRegistrations }
func connectionBound(c GrowthConfig) int   { return c.MaxConnections }

// curves are measured in this order.
var curves = []curve{
	{
		Curve: Curve{
			Name:    "registrations",
			What:    "new registrations of 100 bytes, until data has stored all; RATIO is to the smallest number with as many connections",
			Columns: columns("connections registrations rate ratio clusterUs loadUs p50Ms p99Ms", counted, memory),
			Plots: []Plot{
				{What: "registrations stored per second", X: "registrations", Y: "rate", By: "connections"},
				{What: "processor time of the cluster for a registration, us", X: "registrations", Y: "clusterUs", By: "connections"},
				{What: "p99 of publish to stored, ms", X: "registrations", Y: "p99Ms", By: "connections"},
				{What: "memory of the data nodes, MiB", X: "registrations", Y: "dataMiB", By: "connections"},
			},
		},
		axes: []axis{
			{"connections", []int{1, 20, 200}, nil},
			{"registrations", []int{10_000, 100_000, 1_000_000}, registrationBound},
		},
		load: (*point).register,
	},
	{
		Curve: Curve{
			Name:    "connections",
			What:    "clients that connect at once, publish one value and subscribe to it, until all have received it",
			Columns: columns("connections allMs p50Ms p99Ms", counted, "idleKiB killedMs", memory),
			Plots: []Plot{
				{What: "until all have had their first push, ms", X: "connections", Y: "allMs"},
				{What: "connections that lost their session", X: "connections", Y: "lost"},
				{What: "memory of the sessions per idle connection, KiB", X: "connections", Y: "idleKiB"},
			},
		},
		axes: []axis{{"connections", []int{100, 1_000, 5_000, 10_000}, connectionBound}},
		load: (*point).connect,
		then: (*point).killSession,
	},
	{
		Curve: Curve{
			Name:    "providers",
			What:    "one of the providers of a dataId changes its value of 100 bytes; P50 and P99 of each subscriber, and of the last of each change",
			Columns: columns("providers subscribers p50Ms p99Ms allP50Ms allP99Ms bytesPerPush", counted, memory),
			Plots: []Plot{
				{What: "change to push, p50, ms", X: "providers", Y: "p50Ms", By: "subscribers"},
				{What: "change to push, p99, ms", X: "providers", Y: "p99Ms", By: "subscribers"},
				{What: "bytes received by a subscriber for a change", X: "providers", Y: "bytesPerPush", By: "subscribers"},
			},
		},
		axes: []axis{
			{"subscribers", []int{10, 100, 1_000}, connectionBound},
			{"providers", []int{10, 100, 1_000, 10_000}, registrationBound},
		},
		load: (*point).provide,
	},
	{
		Curve: Curve{
			Name:    "nodes",
			What:    "registrations over 20 connections, then one data node is drained and stopped",
			Columns: columns("datas registrations rate p50Ms p99Ms drainedMs gapP50Ms gapP99Ms", counted, memory),
			Plots: []Plot{
				{What: "registrations stored per second", X: "datas", Y: "rate"},
				{What: "a data node drained and stopped, ms", X: "datas", Y: "drainedMs"},
				{What: "a slot served by no node meanwhile, p99, ms", X: "datas", Y: "gapP99Ms"},
			},
		},
		axes:  []axis{{"datas", []int{3, 5, 9}, nil}, {"registrations", []int{100_000}, registrationBound}, twenty},
		load:  (*point).register,
		probe: (*point).drain,
	},
	{
		Curve: Curve{
			Name:    "losses",
			What:    "registrations over 20 connections; then a data node is killed, and then the session of half of them",
			Columns: columns("registrations rate dataKilledMs moved replayedMs missing", counted, memory),
			Plots: []Plot{
				{What: "registrations stored per second", X: "registrations", Y: "rate"},
				{What: "data node killed: until all its slots are served, ms", X: "registrations", Y: "dataKilledMs"},
				{What: "session killed: until the other one has stored all, ms", X: "registrations", Y: "replayedMs"},
			},
		},
		axes:  []axis{{"registrations", []int{10_000, 100_000, 1_000_000}, registrationBound}, twenty},
		load:  (*point).register,
		probe: (*point).lose,
	},
	{
		Curve: Curve{
			Name: "overload",
			What: "updates of 100 bytes offered at a multiple of the capacity, in an open loop; latencies count from when an update was due",
			Columns: columns("factor capacity offered goodput goodputRatio p50Ms p99Ms notSent merged loadCPU refused unstored", counted,
				"before recoveredMs", memory),
			Plots: []Plot{
				{What: "goodput, as a part of the capacity", X: "factor", Y: "goodputRatio"},
				{What: "p99 from due to stored, ms", X: "factor", Y: "p99Ms"},
				{What: "until the rate is within 10 % of before, ms", X: "factor", Y: "recoveredMs"},
			},
		},
		axes: []axis{{"factor", []int{1, 2, 10}, nil}, {"registrations", []int{100_000}, registrationBound}, twenty},
		load: (*point).overload,
	},
}

var twenty = axis{"connections", []int{20}, nil}

// What every curve counts.
const (
	counted = "lost clientsGone elections evictions"
	memory  = "metaMiB sessionMiB dataMiB"
)

// allColumns are the columns of all curves.
var allColumns = []Column{
	{"connections", "CONNECTIONS", ""},
	{"registrations", "REGISTRATIONS", ""},
	{"providers", "PROVIDERS", ""},
	{"subscribers", "SUBSCRIBERS", ""},
	{"datas", "DATA NODES", ""},
	{"factor", "LOAD", "x"},

	{"rate", "RATE", "per s"},
	{"ratio", "RATIO", ""},
	{"clusterUs", "CPU OF THE CLUSTER", "us each"},
	{"loadUs", "CPU OF THE LOAD", "us each"},
	{"p50Ms", "P50", "ms"},
	{"p99Ms", "P99", "ms"},
	{"allMs", "ALL", "ms"},
	{"killedMs", "SESSION KILLED, ALL SERVED", "ms"},
	{"idleKiB", "SESSION MEMORY PER CONNECTION", "KiB"},
	{"allP50Ms", "ALL P50", "ms"},
	{"allP99Ms", "ALL P99", "ms"},
	{"bytesPerPush", "RECEIVED PER SUBSCRIBER", "bytes"},
	{"drainedMs", "DRAINED AND STOPPED", "ms"},
	{"gapP50Ms", "SLOT UNSERVED P50", "ms"},
	{"gapP99Ms", "SLOT UNSERVED P99", "ms"},
	{"dataKilledMs", "DATA KILLED, ALL SLOTS SERVED", "ms"},
	{"moved", "REGISTRATIONS OF THE SESSION", ""},
	{"replayedMs", "SESSION KILLED, ALL STORED BY THE OTHER", "ms"},
	{"missing", "PUSHES WITHOUT THE VALUE", ""},
	{"capacity", "CAPACITY", "per s"},
	{"offered", "OFFERED", "per s"},
	{"goodput", "GOODPUT", "per s"},
	{"goodputRatio", "OF CAPACITY", ""},
	{"notSent", "NOT SENT", "%"},
	{"merged", "MERGED", "%"},
	{"refused", "REFUSED", ""},
	{"unstored", "UNSTORED", ""},
	{"loadCPU", "CPU OF THE LOAD", "%"},
	{"before", "BEFORE", "per s"},
	{"recoveredMs", "RECOVERED", "ms"},

	{"lost", "BOUNCED", ""},
	{"clientsGone", "GONE", ""},
	{"elections", "ELECTIONS", ""},
	{"evictions", "EVICTIONS", ""},
	{"metaMiB", "METAS", "MiB"},
	{"sessionMiB", "SESSIONS", "MiB"},
	{"dataMiB", "DATA", "MiB"},
}

// columns returns the columns with these names, which are separated by spaces.
func columns(names ...string) (out []Column) {
	for name := range strings.FieldsSeq(strings.Join(names, " ")) {
		i := slices.IndexFunc(allColumns, func(c Column) bool { return c.Name == name })
		if i < 0 {
			panic(fmt.Sprintf("no column %q", name))
		}
		out = append(out, allColumns[i])
	}
	return out
}

// leastRegistrations is the smallest number of registrations that a bound allows:
// each of the 200 connections has some.
const leastRegistrations = 1000

// sizes returns the sizes of the curve's points.
func (c curve) sizes(cfg GrowthConfig) []size {
	out := []size{{}}
	for _, a := range c.axes {
		var next []size
		for _, s := range out {
			for _, n := range a.within(cfg) {
				one := size{a.name: float64(n)}
				for name, v := range s {
					one[name] = v
				}
				next = append(next, one)
			}
		}
		out = next
	}
	if c.Name == "connections" && cfg.Huge {
		out = append(out, size{"connections": hugeConnections})
	}
	return out
}

// within returns the values up to the bound, or the bound alone if all are larger. A
// bound of 0 is none.
func (a axis) within(cfg GrowthConfig) (out []int) {
	bound := 0
	if a.bound != nil {
		bound = a.bound(cfg)
	}
	for _, n := range a.values {
		if bound == 0 || n <= bound {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		out = []int{bound}
	}
	return out
}

// ratios sets each point's ratio of its rate to the first point's that has as many
// connections.
func ratios(points []Point) {
	first := map[float64]float64{} // rate by connections
	for _, p := range points {
		rate, connections := p.Values["rate"], p.Values["connections"]
		if rate <= 0 {
			continue
		}
		if first[connections] == 0 {
			first[connections] = rate
		}
		p.Values["ratio"] = rate / first[connections]
	}
}
