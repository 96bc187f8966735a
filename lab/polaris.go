package lab

import (
	"context"
	"time"

	conclavesql "conclave/sql"
)

var polarisRule = Rule{
	Name: "polaris", From: "polarismesh/polaris, store/mysql/admin.go",
	About:    "Compare and swap of a version; dead is a leader whose row is old, by the database's clock in whole seconds.",
	Weakness: "Times are subtracted as numbers: over a minute's end one second is 41, and a healthy leader is deposed. A leader that the database does not answer keeps its flag. A graceful stop frees nothing.",
	Own:      Times{Lease: 10 * time.Second, Beat: 2 * time.Second, Check: 2 * time.Second},
	migrate:  tables(conclavesql.LabPolarisSeed, conclavesql.LabPolarisTable),
	start: func(_ context.Context, s *stand) (candidate, error) {
		return s.loop(&polaris{s: s, lease: seconds(s.Times.Lease)}), nil
	},
}

// polaris is Polaris's leaderElectionStateMachine: a flag, a version, and a tick.
type polaris struct {
	s       *stand
	lease   int64
	flag    bool
	version int64
	leader  string // whom it knows as the leader
}

func (p *polaris) turn(ctx context.Context) time.Duration {
	p.tick(ctx)
	return p.s.Times.Beat
}

// tick beats, or looks whether the leader is dead, and elects. A beat that failed is
// followed by the look; where that fails, too, nothing is changed: the flag stays.
func (p *polaris) tick(ctx context.Context) {
	if p.flag {
		from := p.version
		p.version++
		n, err := p.s.db.Exec(ctx, conclavesql.LabPolarisSwap, p.s.Name, p.version, p.s.Lab, from)
		if err == nil && n == 1 {
			return
		}
	}
	var leader string
	var age int64
	if err := p.s.db.QueryRow(ctx, conclavesql.LabPolarisCheck, []any{p.s.Lab}, &leader, &age); err != nil {
		return
	}
	if age <= p.lease {
		if leader == p.s.Name { // I led before, and my lease is not over
			p.become(leader)
		}
		if p.leader != leader {
			p.become(leader)
		}
		return
	}
	var from int64
	if err := p.s.db.QueryRow(ctx, conclavesql.LabPolarisVersion, []any{p.s.Lab}, &from); err != nil {
		return
	}
	p.version = from + 1
	if n, err := p.s.db.Exec(ctx, conclavesql.LabPolarisSwap, p.s.Name, p.version, p.s.Lab, from); err == nil && n == 1 {
		p.become(p.s.Name)
	}
}

// become notes who leads.
func (p *polaris) become(leader string) {
	p.leader, p.flag = leader, leader == p.s.Name
	if p.flag {
		p.s.belief.lead(0, time.Time{})
	} else {
		p.s.belief.leave("another leads")
	}
}

// release only drops the flag: the others wait for the lease.
func (p *polaris) release(context.Context) { p.become("") }
