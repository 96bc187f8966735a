package meta

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"conclave"
	"conclave/elector"
	"conclave/internal/node"
	conclavesql "conclave/sql"
	"conclave/wire"
)

// exportMetrics exports the metrics of a meta, besides those of every node.
func exportMetrics(m *node.Metrics, elector *elector.Elector, view *wire.View, leadership *leadership, db Database) {
	gauge, counter := m.Gauge, m.Counter
	yes := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	gauge("conclave_meta_leading", "1 while this node leads with a valid lease.", func() float64 {
		_, ok := elector.Leading()
		return yes(ok)
	})
	gauge("conclave_meta_term", "Highest term seen.", func() float64 { return float64(elector.Highest()) })
	gauge("conclave_meta_lease_remaining_seconds", "How long the known leader's lease is still valid; 0 or less: no leader is known.",
		func() float64 { return elector.Remaining().Seconds() })
	gauge("conclave_meta_protected", "1 while no slot leaves the nodes of its row because too many data nodes were lost.",
		func() float64 { return yes(view.State().Freeze.Frozen) })
	for _, role := range []conclave.Role{conclave.RoleData, conclave.RoleSession} {
		m.LabelledGauge("conclave_meta_members", "Members as last written.", prometheus.Labels{"role": string(role)},
			func() float64 { return float64(len(view.State().Members.Of(role))) })
	}
	gauge("conclave_meta_table_spread_seconds", "Leader: how long the newest slot table took, or has been taking, to reach every member.", func() float64 {
		if l, _ := leadership.current(); l != nil {
			return l.propagation.took(time.Now()).Seconds()
		}
		return 0
	})
	counter("conclave_meta_elections_won_total", "Terms that this node has led.", func() uint64 { return elector.Stats().Won })
	counter("conclave_meta_rounds_total", "Rounds played in the election.", func() uint64 { return elector.Stats().Rounds })
	if db == nil {
		return
	}
	counter("conclave_sql_statements_total", "SQL statements sent.", db.Statements)
	gauge("conclave_sql_round_trip_seconds", "Shortest answer time of the latest SQL statements; a lease needs room for twelve.",
		func() float64 { return db.RoundTrip().Seconds() })
	for _, kind := range conclavesql.BlockKinds() {
		m.LabelledGauge("conclave_sql_blocked", "1 while the election's statements wait for a lock, or in the server itself.", prometheus.Labels{"by": string(kind)},
			func() float64 {
				b, blocked := db.Blocked()
				return yes(blocked && b.By == kind)
			})
	}
}
