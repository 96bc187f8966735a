package lab

import (
	"context"
	"time"
)

var polarisRule = Rule{
	Name: "polaris", From: "polarismesh/polaris, store/mysql/admin.go",
	About:    "Compare and swap of a version; a leader counts as dead if its row is too old, by the database's clock in whole seconds.",
	Weakness: "Times are subtracted as decimal numbers: from :59 to :00 one second counts as 41, and a healthy leader is deposed. A leader that gets no answer from the database keeps its flag. A graceful stop does not free the row.",
	Own:      Times{Lease: 10 * time.Second, Beat: 2 * time.Second, Check: 2 * time.Second},
	migrate:  tables(statement("polaris_seed"), statement("polaris_table")),
	start: func(env *environment) (candidate, error) {
		return env.loop(&polaris{env: env, lease: seconds(env.Times.Lease)}, 0), nil
	},
}

// polaris is Polaris's leaderElectionStateMachine.
type polaris struct {
	env     *environment
	lease   int64
	flag    bool // this node leads
	version int64
	leader  string // the leader that was read last
}

func (p *polaris) turn(ctx context.Context) time.Duration {
	p.tick(ctx)
	return p.env.Times.Beat
}

// tick renews the row if this node leads. Otherwise, or if the renewal fails,
// it checks whether the leader is dead, and if so tries to win. If the check
// fails, too, the flag does not change.
func (p *polaris) tick(ctx context.Context) {
	if p.flag {
		from := p.version
		p.version++
		n, err := p.env.db.Exec(ctx, statement("polaris_swap"), p.env.Name, p.version, p.env.Lab, from)
		if err == nil && n == 1 {
			return
		}
	}
	var leader string
	var age int64
	if err := p.env.db.QueryRow(ctx, statement("polaris_check"), []any{p.env.Lab}, &leader, &age); err != nil {
		return
	}
	if age <= p.lease {
		if leader == p.env.Name || leader != p.leader {
			p.become(leader)
		}
		return
	}
	var from int64
	if err := p.env.db.QueryRow(ctx, statement("polaris_version"), []any{p.env.Lab}, &from); err != nil {
		return
	}
	p.version = from + 1
	if n, err := p.env.db.Exec(ctx, statement("polaris_swap"), p.env.Name, p.version, p.env.Lab, from); err == nil && n == 1 {
		p.become(p.env.Name)
	}
}

// become records the leader.
func (p *polaris) become(leader string) {
	p.leader, p.flag = leader, leader == p.env.Name
	if p.flag {
		p.env.perceived.lead(0, time.Time{})
	} else {
		p.env.perceived.leave("another node leads")
	}
}

// release clears the flag. The others wait for the lease.
func (p *polaris) release(context.Context) { p.become("") }
