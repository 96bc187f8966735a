package meta

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"conclave"
)

// exportMetrics exports the metrics of a meta, besides those of every node.
func (s *Server) exportMetrics() {
	gauge, counter := s.Metrics.Gauge, s.Metrics.Counter
	yes := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	gauge("conclave_meta_leading", "1 while this node leads with a valid lease.", func() float64 {
		_, ok := s.elector.Leading()
		return yes(ok)
	})
	gauge("conclave_meta_term", "Highest term seen.", func() float64 { return float64(s.elector.Highest()) })
	gauge("conclave_meta_lease_remaining_seconds", "How long the known leader's lease is still valid; 0 or less: no leader is known.",
		func() float64 { return s.elector.Remaining().Seconds() })
	gauge("conclave_meta_protected", "1 while no slot moves because too many data nodes were lost.",
		func() float64 { return yes(s.view.State().Freeze.Frozen) })
	for _, role := range []conclave.Role{conclave.RoleData, conclave.RoleSession} {
		s.Metrics.LabelledGauge("conclave_meta_members", "Members as last written.", prometheus.Labels{"role": string(role)},
			func() float64 { return float64(len(s.view.State().Members.Of(role))) })
	}
	gauge("conclave_meta_table_spread_seconds", "Leader: how long the newest slot table took, or has been taking, to reach every member.", func() float64 {
		if l, _ := s.leading(); l != nil {
			return l.propagation.took(time.Now()).Seconds()
		}
		return 0
	})
	counter("conclave_meta_elections_won_total", "Terms that this node has led.", func() uint64 { return s.elector.Stats().Won })
	counter("conclave_meta_rounds_total", "Rounds played in the election.", func() uint64 { return s.elector.Stats().Rounds })
	if s.cfg.Statements != nil {
		counter("conclave_sql_statements_total", "SQL statements sent.", s.cfg.Statements)
	}
}
